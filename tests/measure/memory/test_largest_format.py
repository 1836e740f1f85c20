"""The largest format with which a model fits that does not: memory and predict name the same."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.wings.serving.memory.answers.changes import FORMATS

ASKED = [
    ("llama-3.1-70b", {"phase": "serve", "seq_len": 4096}, "48GB", "a100-sxm-40gb"),
    ("llama-3.1-8b", {"phase": "decode", "seq_len": 2048}, "8GiB", "rtx-4090"),
    ("gpt-oss-120b", {"phase": "decode", "seq_len": 2048}, "60GiB", "a100-sxm-40gb"),
    ("mixtral-8x7b", {"phase": "serve", "seq_len": 2048}, "24GiB", "rtx-4090"),
    ("gemma-3-27b", {"phase": "prefill", "seq_len": 1024}, "24GiB", "rtx-4090"),
]


def fitting(model, asked, **memory):
    """The bytes that each format needs in which the model fits."""
    needed = {}
    for name in FORMATS:
        try:
            totals = archcli.count_memory(model, **asked, **memory, dtype=name).totals
        except ArchError:
            continue
        if totals["fits"]:
            needed[name] = totals["peak_bytes"]
    return needed


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(("model", "asked", "memory", "device"), ASKED)
def test_the_named_format_is_the_largest_that_fits(model, asked, memory, device):
    change = archcli.count_memory(model, **asked, memory=memory).totals["change"]
    known = fitting(model, asked, memory=memory)
    name = change["change"].removeprefix("--dtype ")
    assert known[name] == max(known.values()) == change["peak_bytes"]


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
    name = predicted["change"]["change"].removeprefix("--dtype ")
    assert known[name] == max(known.values()) == predicted["change"]["peak_bytes"]


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
