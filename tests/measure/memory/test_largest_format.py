"""The largest format with which a model fits that does not: memory and predict name the same."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.memory.answers.changes import FORMATS, RARE

ASKED = [
    ("llama-3.1-70b", {"phase": "serve", "seq_len": 4096}, "48GB", "a100-sxm-40gb"),
    ("llama-3.1-8b", {"phase": "decode", "seq_len": 2048}, "8GiB", "rtx-4090"),
    ("gpt-oss-120b", {"phase": "decode", "seq_len": 2048}, "60GiB", "a100-sxm-40gb"),
    ("mixtral-8x7b", {"phase": "serve", "seq_len": 2048}, "24GiB", "rtx-4090"),
    ("gemma-3-27b", {"phase": "prefill", "seq_len": 1024}, "24GiB", "rtx-4090"),
]


def fitting(model, asked, **memory):
    """The bytes that each usual format needs in which the model fits: of vLLM, else of any engine."""
    needed = {}
    for name in FORMATS:
        try:
            report = archcli.count_memory(model, **asked, **memory, dtype=name)
        except ArchError:
            continue
        if report.totals["fits"] and name not in RARE:
            other = "" if name in load_engine("vllm")["formats"] else f" --engine {report.inputs['engine']}"
            needed[f"--dtype {name}{other}"] = report.totals["peak_bytes"]
    of_vllm = {change: size for change, size in needed.items() if "--engine" not in change}
    return of_vllm or needed


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(("model", "asked", "memory", "device"), ASKED)
def test_the_named_format_is_the_largest_that_fits(model, asked, memory, device):
    change = archcli.count_memory(model, **asked, memory=memory).totals["change"]
    known = fitting(model, asked, memory=memory)
    assert known[change["change"]] == max(known.values()) == change["peak_bytes"]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(("model", "asked", "memory", "device"), ASKED)
def test_predict_names_what_memory_finds(model, asked, memory, device):
    asked = {key: value for key, value in asked.items() if key == "phase"} | {"seq_len": asked["seq_len"]}
    predicted = archcli.predict(model, device, **asked).totals
    if asked["phase"] == "serve":  # all tokens that serving ends with are in the cache
        asked["seq_len"] += 128
    known = fitting(model, asked, device=device)
    if predicted["fits"] or not known:
        assert predicted["change"] is None
        return
    change = predicted["change"]
    assert known[change["change"]] == max(known.values()) == change["peak_bytes"]


def test_what_fits_needs_no_other_format():
    assert archcli.predict("gpt2", "h100-sxm").totals["change"] is None
    notes = archcli.predict("llama-3.1-8b", "l4", "decode", dtype="fp32").notes
    assert any("it would fit" in note for note in notes)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("memory", ["16GB", "24GB"])
def test_gpt_oss_fits_a_card_as_published(memory):
    """12.8 GiB of weights; 20k tokens in 12 layers, in 12 a window and vLLM's block: 2 x 8 heads of 64."""
    asked = {"phase": "serve", "seq_len": 20_000, "chunk": 2048, "memory": memory}
    report = archcli.count_memory("gpt-oss-20b", **asked)
    assert report.totals["fits"]
    cached = 12 * (20_000 + 128 + 16) * 2 * 8 * 64 * 2
    assert report.totals["parts"]["cache"] == cached
    assert not archcli.count_memory("gpt-oss-20b", **asked, dtype="bf16").totals["fits"]


@pytest.mark.long
def test_hints_stay_within_the_engine_cheapest_first():
    """DeepSeek-V3 with 32 sequences of 32k on 8 H200: a cache in fp8 fits, and 4 bits would, too."""
    asked = {"phase": "decode", "batch_size": 32, "seq_len": 32_768}
    change = archcli.count_memory("deepseek-v3", **asked, device="8xh200-sxm").totals["change"]
    assert change["change"] == "--kv-dtype fp8"
    words = "--phase decode --batch-size 32 --seq-len 32768 --device 8xh200-sxm --kv-dtype fp8"
    assert change["command"] == f"archcli memory deepseek-v3 {words}"
    assert archcli.count_memory("deepseek-v3", **asked, device="8xh200-sxm", kv_dtype="fp8").totals["fits"]
    predicted = archcli.predict("deepseek-v3", "8xh200-sxm", phase="decode", batch_size=32, past=32_768)
    assert predicted.totals["change"]["change"] == "--kv-dtype fp8"
    assert predicted.totals["fitting_plan"] == "--dp 2 --tp 4 --ep 8"
    assert not any("MODEL" in note for note in predicted.notes)


def test_a_named_engine_is_offered_its_own_formats_alone():
    """SGLang reads GGUF, which few serve with: q6_k by --dtype alone, and never another engine."""
    totals = archcli.fit("deepseek-r1", "8xh200-sxm", engine="sglang").totals
    assert totals["smaller"]["format"] == "awq-int4"
    stated = archcli.fit("llama-3.1-8b", "rtx-4090", engine="sglang", dtype="q6_k").totals
    assert (stated["format"], stated["engine"]) == ("q6_k", "sglang")
    memory = {"memory": "5GiB", "engine": "vllm"}
    assert archcli.count_memory("llama-3.1-8b", "decode", **memory, seq_len=4096).totals["change"] is None
