"""Fits, tight, no or unknown: held to runs that ran, that ran out of memory, and to the ends of each."""

import sys
from pathlib import Path

import pytest

import archcli
from archcli.wings.serving.devices.engines import engines, load_engine
from table import every_row

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
import fit_margins  # noqa: E402

sys.path.remove(str(ROOT / "benchmarks"))

TRAINED, SERVED = fit_margins.table(fit_margins.TRAINING), fit_margins.table(fit_margins.SERVING)
FULL = {"loss": "fused", "recompute": "layer"}
ADAPTERS = {"overrides": ["lora.rank=16"]}
GIB = 2**30


def named(row):
    return f"{row['model']} {row['device']} {row['figure']}"


@pytest.mark.long
@every_row("row", TRAINED, ids=named)
def test_a_trainer_that_ran_out_is_not_said_to_fit_and_one_that_ran_not_refused(row):
    totals, _ = fit_margins.trained(row)
    assert totals["verdict"] != ("fits" if row["figure"] == "ran out" else "no")


@pytest.mark.long
@every_row("row", SERVED, ids=named)
def test_an_engine_that_had_no_block_left_is_not_said_to_fit(row):
    totals, _ = fit_margins.served(row)
    assert totals["verdict"] != ("fits" if row["figure"] == "no block" else "no")


@pytest.mark.long
def test_the_margins_of_the_engines_are_those_of_the_tables():
    """`python benchmarks/fit_margins.py --write` writes them."""
    found = fit_margins.margins(fit_margins.measured())
    facts = [(engine, fact) for engine in engines() for fact in load_engine(engine) if "margin" in fact]
    assert {key: str(load_engine(key[0])[key[1]]) for key in facts} == {
        key: value.rstrip("0") if value.startswith("0.") else value for key, value in found.items()
    }


def asked(model, overrides, memory=None, **options):
    loaded = archcli.load(model, overrides=overrides)
    return archcli.count_memory(loaded, memory=memory, **options).totals


KINDS = [
    ("llama-3.1-8b", [], {"phase": "serve", "engine": "vllm"}),
    ("llama-3.1-8b", [], {"phase": "serve", "engine": "llamacpp", "dtype": "q4_k_m"}),
    ("llama-3.2-1b", [], {"phase": "train", **FULL}),
    ("llama-3.2-1b", ["lora.rank=16"], {"phase": "train"}),
]


@pytest.mark.parametrize(("model", "overrides", "options"), KINDS, ids=["vllm", "llamacpp", "full", "lora"])
def test_the_ends_of_each_verdict(model, overrides, options):
    """What is counted just fits, and is tight; with the margin it fits; a byte less does not."""
    totals = asked(model, overrides, "60GiB", **options)
    counted, margin = totals["peak_bytes"] + totals["beyond_bytes"], totals["margin_bytes"]
    assert margin > 0
    ends = {counted - 1: "no", counted: "tight", counted + margin - 1: "tight", counted + margin: "fits"}
    for memory, verdict in ends.items():
        said = asked(model, overrides, memory, **options)
        assert (said["verdict"], said["fits"]) == (verdict, verdict != "no")


def test_the_margin_of_training_is_a_share():
    """Of full training that of the peak; of adapters that of what is neither weight nor state."""
    facts = load_engine("none")
    full = asked("llama-3.2-1b", [], phase="train")
    assert full["margin_bytes"] == int(facts["training_margin"] * full["peak_bytes"])
    lora = asked("llama-3.2-1b", ["lora.rank=16"], phase="train")
    parts = lora["parts"]
    activations = parts["kept"] + parts["loss"] + parts["temporaries"]
    assert lora["margin_bytes"] == int(facts["adapters_margin"] * activations)


def test_without_a_device_there_is_no_verdict():
    assert archcli.count_memory("gpt2").totals["verdict"] is None


def test_predict_and_fit_have_the_verdict_of_memory():
    said, tokens = {"device": "rtx-5090", "dtype": "fp8", "engine": "vllm"}, 24_576
    served = archcli.count_memory("mistral-small-24b", "serve", seq_len=tokens, **said).totals
    fitted = archcli.fit("mistral-small-24b", context=tokens, **said).totals
    predicted = archcli.predict("mistral-small-24b", phase="serve", seq_len=tokens - 1, new=1, **said).totals
    assert served["verdict"] == fitted["verdict"] == predicted["verdict"] == "tight"
    assert served["fits"] is fitted["fits"] is predicted["fits"] is True


def test_the_context_that_surely_fits_leaves_the_margin_and_a_block_more_does_not():
    totals = archcli.fit("llama-3.1-8b", "rtx-4090").totals
    assert totals["verdict"] == "fits"
    sure, block = totals["sure_context"], load_engine("vllm")["cache_block"]
    assert sure < totals["context"]
    options = {"phase": "serve", "device": "rtx-4090"}
    verdicts = [
        archcli.count_memory("llama-3.1-8b", seq_len=n, **options).totals["verdict"]
        for n in (sure, sure + block, totals["context"], totals["context"] + block)
    ]
    assert verdicts == ["fits", "tight", "tight", "no"]


@pytest.mark.long
def test_the_longest_context_of_training_says_what_surely_fits():
    options = {"dtype": "int8", "recompute": "layer", "device": "h100-sxm", "fit": "context"}
    fitted = asked("gemma-3-12b", ["lora.rank=16"], phase="train", **options)["fit"]
    assert fitted["sure"] < 14_000 < fitted["value"]  # the longest that unsloth ran (unslothai/unsloth#2366)
    shorter = {**options, "fit": None, "seq_len": fitted["sure"]}
    assert asked("gemma-3-12b", ["lora.rank=16"], phase="train", **shorter)["verdict"] == "fits"
