"""Random presets, formats, phases and devices: memory and predict agree about what fits."""

import random

import pytest

import archcli
from archcli.load.presets import presets
from archcli.wings.serving.devices.engines import engines, load_engine
from combinations.asked import CACHES, FORMATS

DEVICES = ("rtx-4090", "rtx-3090", "l4", "h100-sxm", "b200-sxm", "2xh100-sxm")
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


@pytest.mark.long
@pytest.mark.sample(1)
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
