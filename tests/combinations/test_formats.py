"""Random presets, formats, phases and devices: memory and predict agree about what fits."""

import random

import pytest

import archcli
from archcli.load.devices.engines import engines, load_engine
from archcli.load.presets import presets

FORMATS = (
    *("q2_k", "q3_k_m", "q3_k_l", "q4_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq3_xxs"),
    *("iq4_xs", "nf4", "nf4-double", "awq-int4", "gptq-int4", "mlx-4bit", "mxfp4", "nvfp4", "fp8"),
    *("fp8-block", "int8", "bf16", None),
)
DEVICES = ("rtx-4090", "rtx-3090", "l4", "h100-sxm", "b200-sxm", "2xh100-sxm")
CACHES = (None, "bf16", "fp8", "int8", "q8_0", "q4_0", "nvfp4")
ENGINES = [load_engine(name) for name in engines()]
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
        kept = [engine["cache_dtypes"] for engine in ENGINES if asked["dtype"] in (None, *engine["formats"])]
        asked["kv_dtype"] = chosen.choice(
            [cache for cache in CACHES if any(cache in (None, *of) for of in kept)]
        )
    asked |= {"new": NEW} if phase == "serve" else {}
    return model, asked


def answers(model, asked):
    predicted = archcli.predict(model, **asked)
    plan = {name: value for name, value in predicted.inputs["plan"].items() if value and value != 1}
    return archcli.count_memory(model, **asked, plan=plan), predicted


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(200))
def test_memory_and_predict_agree_about_what_fits(seed):
    model, asked = question(seed)
    memory, predicted = answers(model, asked)
    needed = memory.totals["peak_bytes"] + memory.totals["beyond_bytes"]
    assert predicted.totals["needed_bytes"] == needed
    assert predicted.totals["fits"] == memory.totals["fits"]
    assert predicted.inputs["dtype"] == memory.inputs["dtype"]
    if predicted.totals["change"] is not None:
        # in another engine, too, which takes another share of the device
        stored_as = predicted.totals["change"]["change"].removeprefix("--dtype ")
        assert archcli.count_memory(model, **asked | {"dtype": stored_as}).totals["fits"]
