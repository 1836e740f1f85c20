"""Speculative decoding: tokens of a round, its seconds, and what a draft takes of the memory.

Witnesses: the geometric series, predictions and bytes that are asked singly, and published heads.
"""

import csv
from collections import Counter
from math import isclose
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.predict.answers.drafts import Speculation
from table import every_row

TARGET, SMALL, H100 = "llama-3.1-8b", "llama-3.2-1b", "h100-sxm"
TABLE = Path(__file__).parents[3] / "benchmarks" / "measured" / "speculative.csv"
N, ACCEPT = 4, 0.7
PER_ROUND = 1 + 0.7 + 0.49 + 0.343 + 0.2401
DRAFTED = {"draft": SMALL, "draft_tokens": N, "accept": ACCEPT}


def predicted(model=TARGET, phase="decode", device=H100, **options):
    return archcli.predict(model, device, phase=phase, **options)


def seconds(report):
    return report.totals["time_s"]["expected"]


def question(model=TARGET, **options):
    return predict_question(given(model).model, PredictOptions(model, H100, **options))


def test_tokens_of_a_round_are_a_geometric_series():
    draft = Speculation("any", N, ACCEPT)
    assert draft.per_round == pytest.approx(PER_ROUND)
    assert draft.per_round == pytest.approx((1 - ACCEPT ** (N + 1)) / (1 - ACCEPT))
    # one drafted token that is accepted three times of four: 1.75 a round
    assert Speculation("any", 1, 0.75).per_round == 1.75


@pytest.mark.long
@every_row("engine", ["vllm", "none", "llamacpp"])
def test_a_round_takes_the_passes_of_the_draft_and_one_of_the_target(engine):
    at = {"seq_len": 1000, "batch_size": 4, "engine": engine}
    drafted = predicted(**at, **DRAFTED)
    # without kernels that verify: n-grams take no time of the device
    verify = predicted(**at, draft="ngram", draft_tokens=N, accept=ACCEPT)
    token_of_draft = predicted(SMALL, **at)
    of_round = PER_ROUND * seconds(drafted)
    assert of_round == pytest.approx(PER_ROUND * seconds(verify) + N * seconds(token_of_draft))
    assert drafted.totals["tokens_per_s"]["expected"] == pytest.approx(4 / seconds(drafted))


def test_verifying_is_a_prefill_behind_the_cache_with_all_logits():
    at = {"engine": "none"}
    rows = predicted(**at, past=1000, draft="ngram", draft_tokens=N, accept=ACCEPT).rows
    prompt = predicted(phase="prefill", **at, seq_len=N + 1, past=1000).rows
    # the prompt keeps its last position before norm and head
    behind = ("lm_head", "final_norm")
    of_prompt, of_round = Counter(), Counter()
    for row in prompt:
        of_prompt[row["path"], row["kernel"]] += row["flops"] * (row["path"] not in behind)
    for row in rows:
        of_round[row["path"], row["kernel"]] += PER_ROUND * row["flops"]
    assert of_prompt.keys() == of_round.keys()
    apart = {key: (flops, of_round[key]) for key, flops in of_prompt.items() if key[0] not in behind}
    assert {key: pair for key, pair in apart.items() if not isclose(*pair, rel_tol=1e-9)} == {}
    # 5 tokens, each 2 x 4096 x 128256 FLOPs
    assert of_round["lm_head", "mm"] == pytest.approx(5 * 2 * 4096 * 128256)


def test_rows_tell_the_draft_from_the_target():
    rows = predicted(**DRAFTED).rows
    assert {row["stage"] for row in rows} == {"verify", "draft"}
    heads = {row["stage"]: row for row in rows if row["path"] == "lm_head" and row["flops"]}
    # of a round 5 tokens are verified by a head of 4096 x 128256, and 4 drafted by one of 2048 x 128256
    assert heads["verify"]["flops"] == pytest.approx(5 * 2 * 4096 * 128256 / PER_ROUND)
    assert heads["draft"]["flops"] == pytest.approx(4 * 2 * 2048 * 128256 / PER_ROUND)
    served = predicted(phase="serve", **DRAFTED).rows
    assert {row["stage"] for row in served} == {"prefill", "draft prefill", "verify", "draft"}
    looked_up = predicted(phase="serve", draft="ngram", accept=ACCEPT).rows
    assert {row["stage"] for row in looked_up} == {"prefill", "verify"}


def test_rejected_tokens_are_no_flops_of_the_answer():
    drafted, plain = predicted(**DRAFTED), predicted()
    # MFU x time: the FLOPs of one token, up to those of attention over 5 more
    needed = [report.totals["mfu"] * seconds(report) for report in (drafted, plain)]
    assert needed[0] == pytest.approx(needed[1], rel=1e-3)
    assert drafted.totals["hfu"] > 1.5 * drafted.totals["mfu"]


def test_the_round_of_a_batch_and_context_is_asked_in_python():
    drafting = question(**DRAFTED)
    one_round = drafting.draft_round(8, 3000)
    assert one_round.tokens == pytest.approx(PER_ROUND)
    token = question(**DRAFTED, batch_size=8, seq_len=3000).answer().prediction
    # a live server is slower than its kernels
    assert one_round.seconds.expected < PER_ROUND * token.seconds.expected
    assert one_round.seconds.floor == pytest.approx(PER_ROUND * token.seconds.floor)
    assert question().draft_round(8, 3000) is None


def test_memory_is_that_of_both_asked_singly():
    at = {"batch_size": 8, "seq_len": 1000, "device": H100}
    both = archcli.memory(TARGET, "serve", **at, **DRAFTED).totals
    target = archcli.memory(TARGET, "serve", **at).totals
    small = archcli.memory(SMALL, "serve", **at).totals["parts"]
    assert both["draft"] == {
        "name": SMALL,
        "weights_bytes": small["weights"],
        "cache_bytes": small["cache"],
    }
    assert both["parts"] == {**target["parts"], "draft": small["weights"] + small["cache"]}
    assert both["peak_bytes"] == target["peak_bytes"] + small["weights"] + small["cache"]


@pytest.mark.long
def test_fit_holds_the_draft_too():
    shared = {"batch_size": 8, "context": 4096, "dtype": "bf16", "engine": "vllm"}
    fitted = archcli.fit(TARGET, H100, **shared, **DRAFTED).totals
    at = {"batch_size": 8, "seq_len": fitted["context"], "device": H100, "dtype": "bf16", "engine": "vllm"}
    assert fitted["peak_bytes"] == archcli.memory(TARGET, "serve", **at, **DRAFTED).totals["peak_bytes"]
    assert fitted["context"] < archcli.fit(TARGET, H100, **shared).totals["context"]
    speed = predicted(batch_size=8, seq_len=4096, **DRAFTED).totals["tokens_per_s"]
    assert fitted["tokens_per_s"]["expected"] == pytest.approx(speed["expected"])


def test_an_eagle3_head_has_the_published_matrices():
    """EAGLE3-LLaMA3.1-Instruct-8B by its config.json: 1 layer, 4096, 14336, 32 and 8 heads, 32000 words."""
    fused, attention = 3 * 4096 * 4096, 2 * 4096 * (4096 + 2 * 1024) + 4096 * 4096
    network, words, norms = 3 * 4096 * 14336, 32000 * 4096, 4 * 4096
    held = archcli.memory(TARGET, "serve", device=H100, draft="eagle3").totals["draft"]
    assert held["weights_bytes"] == 2 * (fused + attention + network + words + norms)
    # keys and values of 8 heads of 128
    assert held["cache_bytes"] == 2 * 2048 * 2 * 8 * 128


def test_a_model_predicts_further_tokens_with_its_own_layer():
    """DeepSeek-V3's README_WEIGHTS: 11.5B parameters of the module, without the table and the head."""
    held = archcli.memory("deepseek-v3", "serve", dtype="bf16", draft="mtp").totals["draft"]
    assert held["weights_bytes"] / 2 == pytest.approx(11.5e9, rel=0.01)
    # the same layer that training has, counted on another tape
    assert held["weights_bytes"] == 2 * archcli.params("deepseek-v3").totals["mtp_params"]
    # a latent of 512 and a key of 64, of one layer
    assert held["cache_bytes"] == 2 * 2048 * (512 + 64)


def test_a_draft_is_shared_by_the_ranks_that_can():
    at = {"device": f"8x{H100}", "tp": 8}
    split = archcli.memory("llama-3.1-70b", "serve", **at, draft=SMALL, accept=0.6).totals["draft"]
    alone = archcli.memory(SMALL, "serve", **at).totals["parts"]
    assert (split["weights_bytes"], split["cache_bytes"]) == (alone["weights"], alone["cache"])
    # 8 ranks cannot share the 14 query heads of Qwen2.5 0.5B: each has it whole
    at, options = {"device": f"8x{H100}", "tp": 8}, {"draft": "qwen2.5-0.5b", "accept": 0.6}
    whole = archcli.memory("qwen2.5-3b", "serve", **{**at, "tp": 2}, **options).totals["draft"]
    alone = archcli.memory("qwen2.5-0.5b", "serve", device=H100).totals["parts"]
    assert whole["weights_bytes"] < alone["weights"]


@every_row(
    ("options", "what"),
    [
        ({"draft": "gpt2", "accept": 0.5}, "gpt2 has 50,257 words, llama-3.1-8b 128,256"),
        ({"draft": SMALL}, "what share of its tokens is accepted"),
        ({"draft": "ngram"}, "what share of its tokens is accepted"),
        ({"draft": "mtp"}, "states no layer of multi-token prediction"),
        ({"draft_tokens": 3}, "--draft-tokens is of --draft"),
        ({"accept": 0.5}, "--accept is of --draft"),
        ({"draft": "ngram", "accept": 1.0}, "no share between 0 and 1"),
        ({"draft": "ngram", "accept": 0.0}, "no share between 0 and 1"),
        ({"draft": "eagle3", "phase": "prefill"}, "the phase is prefill"),
        ({"draft": "eagle3", "phase": "train"}, "the phase is train"),
        ({"draft": "eagle3", "command": True}, "--command writes no line"),
        ({"draft": "eagle3", "fit": "time"}, "without --draft"),
        ({"draft": "eagle3", "offload": "auto", "engine": "llamacpp"}, "--offload runs with --draft"),
    ],
)
def test_what_is_no_draft_is_an_error(options, what):
    with pytest.raises(ArchError) as raised:
        predicted(**options)
    assert len(raised.value.problems) == 1
    assert what in raised.value.problems[0].what
    assert raised.value.problems[0].hint


def test_fit_refuses_a_draft_that_it_could_not_time():
    with pytest.raises(ArchError, match="what share of its tokens is accepted"):
        archcli.fit(TARGET, H100, draft=SMALL)
    with pytest.raises(ArchError, match="--command writes no line"):
        archcli.fit(TARGET, H100, command=True, **DRAFTED)
    with pytest.raises(ArchError, match="--draft is of one model"):
        archcli.fit(device=H100, **DRAFTED)


def test_padding_of_a_table_is_no_other_vocabulary_for_llamacpp():
    # Qwen2.5: 152,064 and 151,936 entries for the same words
    options = {"draft": "qwen2.5-0.5b", "accept": 0.6, "dtype": "q4_k_m"}
    assert predicted("qwen2.5-72b", engine="llamacpp", **options).totals["tokens_per_round"] > 1
    with pytest.raises(ArchError, match=r"151,936 words, qwen2\.5-72b 152,064"):
        predicted("qwen2.5-72b", engine="vllm", **{**options, "dtype": "bf16"})


def test_published_shares_stand_for_those_left_out():
    eagle, mtp = question(draft="eagle3").draft, question("deepseek-v3", draft="mtp", dtype="fp8").draft
    # vLLM's test: 2.60 tokens of 3 drafted; DeepSeek-V3: 85% to 90% of second tokens
    assert eagle.per_round == pytest.approx(2.60, abs=0.02)
    assert (eagle.tokens, mtp.tokens, mtp.per_round) == (3, 1, 1.85)
    assert "2.60" in eagle.source
    assert "85% to 90%" in mtp.source


@pytest.mark.parametrize("device", ["rtx-5090", "rx-7900-xtx", "ai-pro-r9700"])
def test_reported_rates_lie_in_the_range(device):
    model = given("qwen3.8-27b", ["mtp.depth=1"]).model
    for row in csv.DictReader(TABLE.read_text().splitlines()):
        if row["device"] == device:
            tokens, per_round = int(row["draft_tokens"]), float(row["per_round"])
            # between these shares the series has the reported tokens
            shares = [n / 1000 for n in range(1, 1000)]
            accept = min(shares, key=lambda a: abs(sum(a**i for i in range(tokens + 1)) - per_round))
            at = {"engine": row["engine"], "dtype": row["dtype"], "seq_len": int(row["context"])}
            rates = predicted(model, device=device, **at, draft="mtp", draft_tokens=tokens, accept=accept)
            assert rates.totals["tokens_per_s"]["low"] <= float(row["with"])
            assert float(row["with"]) <= rates.totals["tokens_per_s"]["high"]
