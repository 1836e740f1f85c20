"""Reports of one rank: the figures of its share, said so."""

import json

import pytest

import archcli as python
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.serving.memory.plan import Plan
from small import decoder

OF_EIGHT = "All figures are of one rank of 8 that share each matrix."
LLAMA = "llama-3.1-8b"


@pytest.mark.long
def test_flops(archcli):
    whole = json.loads(archcli("flops", LLAMA, "--json").stdout)
    rank = json.loads(archcli("flops", LLAMA, "--tp", "8", "--json").stdout)
    assert rank["totals"]["matmul_flops"] * 8 == whole["totals"]["matmul_flops"]
    # 65 sums of 2048 tokens, each sent around a ring twice, but for an eighth
    assert rank["totals"]["sent_elements"] == 65 * 2 * 2048 * 4096 * 7 // 8
    assert rank["convention"].endswith(OF_EIGHT)
    assert {key: rank["inputs"][key] for key in ("tp", "sp", "ep")} == {"tp": 8, "sp": False, "ep": 1}
    assert "tp" not in whole["inputs"]
    assert "sent_elements" not in whole["totals"]


def test_gradients_are_sent_as_well():
    """A sum behind the table and each sublayer; backward in front of each sublayer and the head."""
    totals = count_flops(shard(decoder(), 2), Request("train", 1, 4)).totals
    assert totals["sent_elements"] == 2 * (1 + 2 * 3) * (2 * 4 * 8 // 2)


@pytest.mark.long
def test_cache(archcli):
    """8 kv heads: 16 ranks hold each twice."""
    whole = count_kv_cache(load(LLAMA).model, 1000).totals
    for tp, parts in ((2, 2), (8, 8), (16, 8)):
        assert (
            count_kv_cache(load(LLAMA).model, 1000, plan=Plan(tp=tp)).totals["bytes"] * parts
            == whole["bytes"]
        )
    report = json.loads(archcli("kvcache", LLAMA, "--tp", "8", "--json").stdout)
    assert report["inputs"]["tp"] == 8
    assert report["convention"].endswith(OF_EIGHT)
    mqa = report["totals"]["as_kind"]["mqa"]["bytes"]
    assert mqa == json.loads(archcli("kvcache", LLAMA, "--json").stdout)["totals"]["as_kind"]["mqa"]["bytes"]


def test_in_python():
    whole = python.count_flops(LLAMA).totals["matmul_flops"]
    assert python.count_flops(LLAMA, tp=4, sp=True).totals["matmul_flops"] * 4 == whole
    assert python.count_flops("mixtral-8x7b", ep=8).inputs["ep"] == 8
    cache = python.count_kv_cache(LLAMA, 1000).totals["bytes"]
    assert python.count_kv_cache(LLAMA, 1000, tp=4).totals["bytes"] * 4 == cache
    with pytest.raises(ArchError, match="tp must be a whole number above 0"):
        python.count_flops(LLAMA, tp=0)


def test_weights_beside_a_cache():
    fits = count_kv_cache(load(LLAMA).model, 1000, memory_bytes=2**34, plan=Plan(tp=8)).totals["fits"]
    norms, matrices = (2 * 32 + 1) * 4096, 8_030_261_248 - (2 * 32 + 1) * 4096
    assert fits["weights_bytes"] == 2 * (matrices // 8 + norms)


@pytest.mark.long
def test_a_plan_that_cannot_be_is_said(archcli):
    done = archcli("flops", LLAMA, "--tp", "3")
    assert done.returncode == 2
    assert "tp 3 does not divide n_heads 32" in done.stderr
    assert "2, 4, 8, 16 or 32 would do" in done.stderr


@pytest.mark.parametrize(
    ("request_", "what", "hint"),
    [
        (Request(seq_len=7), "sp shares tokens, and tp 2 does not divide 7", "8 tokens would do"),
        (Request("prefill", 1, 8, 5), "sp shares tokens, and tp 2 does not divide 5", "6 tokens would do"),
        (Request("decode"), "sp shares the tokens of a pass, and decoding has one", "leave sp out"),
    ],
)
def test_tokens_that_cannot_be_shared(request_, what, hint):
    with pytest.raises(ArchError) as caught:
        count_flops(shard(decoder(), 2, sp=True), request_)
    assert [(it.what, it.hint) for it in caught.value.problems] == [(what, hint)]


@pytest.mark.parametrize(
    ("phase", "tokens", "problem"),
    [
        ("decode", 8, ("sp", "sp shares the tokens of a pass, and decoding has one", "leave sp out")),
        ("prefill", 7, ("seq_len", "sp shares tokens, and tp 2 does not divide 7", "8 tokens would do")),
        ("train", 7, ("seq_len", "sp shares tokens, and tp 2 does not divide 7", "8 tokens would do")),
    ],
)
def test_commands_refuse_the_same_tokens_in_the_same_words(phase, tokens, problem):
    model, plan = decoder(), {"tp": 2, "sp": True}
    questions = [
        lambda: python.count_flops(model, phase=phase, seq_len=tokens, **plan),
        lambda: python.count_memory(model, phase, seq_len=tokens, plan=plan),
        lambda: python.predict(model, "2xh100-sxm", phase, seq_len=tokens, plan=plan),
    ]
    if phase == "decode":  # an engine decodes, too
        questions += [
            lambda: python.count_memory(model, "serve", seq_len=tokens, plan=plan),
            lambda: python.predict(model, "2xh100-sxm", "serve", seq_len=tokens, plan=plan),
        ]
    for question in questions:
        with pytest.raises(ArchError) as caught:
            question()
        assert [(it.path, it.what, it.hint) for it in caught.value.problems] == [problem]
