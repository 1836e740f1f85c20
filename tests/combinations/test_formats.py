"""Random presets, formats, phases and devices: memory and predict agree about what fits."""

import random

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.presets import presets

FORMATS = (
    *("q2_k", "q3_k_m", "q3_k_l", "q4_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq3_xxs"),
    *("iq4_xs", "nf4", "nf4-double", "awq-int4", "gptq-int4", "mlx-4bit", "mxfp4", "nvfp4", "fp8"),
    *("fp8-block", "int8", "bf16", None),
)
DEVICES = ("rtx-4090", "l4", "h100-sxm", "b200-sxm", "2xh100-sxm")
CACHES = (None, "bf16", "fp8", "int8", "q8_0", "q4_0", "nvfp4")
NEW = 8


def question(seed):
    """(model, options of memory, options of predict that ask the same)."""
    chosen = random.Random(seed)  # noqa: S311
    model = chosen.choice([name for name in presets() if archcli.load(name).quantization is None])
    caches = archcli.load(model).caches
    phase = chosen.choice(("prefill", "decode", "serve") if caches else ("forward",))
    device = chosen.choice(DEVICES)
    length = min(archcli.load(model).max_seq_len or 2048, chosen.choice((128, 1000, 2048))) - NEW
    asked = {"phase": phase, "batch_size": chosen.choice((1, 3, 16)), "seq_len": length}
    asked |= {"dtype": chosen.choice(FORMATS), "device": device}
    if phase == "serve":
        asked["kv_dtype"] = chosen.choice(CACHES)
    ours = asked | ({"seq_len": length + NEW} if phase == "serve" else {})
    theirs = asked | ({"new": NEW} if phase == "serve" else {})
    return model, ours, theirs


def answers(seed):
    model, ours, theirs = question(seed)
    try:
        predicted = archcli.predict(model, **theirs)
    except ArchError:
        return model, None, None
    plan = {name: value for name, value in predicted.inputs["plan"].items() if value and value != 1}
    return model, archcli.count_memory(model, **ours, plan=plan), predicted


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(200))
def test_memory_and_predict_agree_about_what_fits(seed):
    model, memory, predicted = answers(seed)
    if memory is None:
        pytest.skip(f"{model} cannot be timed so")
    needed = memory.totals["peak_bytes"] + memory.totals["beyond_bytes"]
    assert predicted.totals["needed_bytes"] == needed
    assert predicted.totals["fits"] == memory.totals["fits"]
    assert predicted.inputs["dtype"] == memory.inputs["dtype"]
    if not predicted.totals["fits"] and predicted.totals["change"] is not None:
        assert predicted.totals["change"]["needed_bytes"] <= predicted.totals["memory_bytes"]
