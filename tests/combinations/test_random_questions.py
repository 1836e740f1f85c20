"""300 random questions to memory, predict and kvcache: answered, in order, and in agreement."""

import random
from itertools import pairwise

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.presets import preset_records
from archcli.wings.serving.devices.datasheet import devices
from archcli.wings.serving.devices.engines import engines, load_engine
from combinations.asked import CACHES, FORMATS

ENGINES = {name: load_engine(name) for name in engines() if name != "none"}
NAMED = [form for form in FORMATS if form not in {None, "bf16"}]
KINDS = {record["name"]: record["kind"] for record in preset_records()}
PRESETS, GENERATING = list(KINDS), [name for name, kind in KINDS.items() if kind != "encoder"]
COMMANDS = {"memory": archcli.count_memory, "predict": archcli.predict, "kvcache": archcli.count_kv_cache}
SIZES = (1, 17, 128, 1000, 2048, 8192, 32768)
REFUSED = (
    "grows one of the type that it computes in",  # transformers with a cache of another type
    "does not unpack",  # TensorRT-LLM on a device without the peak
    "too few to predict",  # a training of tokens that are predicted several at a time, on one token
    "states no peak of fp32",  # TPUs, whose scans of eager torch have products in fp32
)
"""What no engine of that name does, no training of such a model, and no figure of a device tells."""


def question(seed):
    """(command, model, its options): each pair of them exists for itself."""
    chosen = random.Random(seed)  # noqa: S311
    command = chosen.choice(("memory", "predict", "memory", "predict", "kvcache"))
    model = chosen.choice(GENERATING if command == "kvcache" else PRESETS)
    loaded = archcli.load(model)
    asked = {
        "batch_size": chosen.choice((1, 2, 3, 8, 16, 64)),
        "device": chosen.choice(("", "", "2x", "3x", "4x", "8x")) + chosen.choice(devices()),
    }
    length = min(loaded.max_seq_len or 4096, chosen.choice(SIZES))
    caching = ("prefill", "decode", "serve") if loaded.caches else ()
    phase = chosen.choice(("train", "forward", *caching)) if command != "kvcache" else "decode"
    stored_as = chosen.choice((None, *NAMED))
    if loaded.quantization is not None or command == "kvcache":
        stored_as = None
    if phase == "train":
        stored_as = chosen.choice((None, "nf4", "nf4-double"))
    if phase in caching:
        asked |= _of_engine(chosen, stored_as)
    if command == "kvcache":
        return command, model, {"context": length, **asked}
    new = {"new": chosen.choice((1, 32, 128))} if phase == "serve" else {}
    return command, model, {"phase": phase, "seq_len": length, "dtype": stored_as, **asked, **new}


def _of_engine(chosen, stored_as):
    """An engine that reads the format, or the usual one; a type of cache that it keeps, or its own."""
    readers = [name for name, facts in ENGINES.items() if stored_as is None or stored_as in facts["formats"]]
    engine = chosen.choice((None, *readers))
    kept = {cache for name in ([engine] if engine else readers) for cache in ENGINES[name]["cache_dtypes"]}
    kv_dtype = chosen.choice((None, None, *(cache for cache in CACHES if cache in kept)))
    return {"engine": engine} | ({} if kv_dtype is None else {"kv_dtype": kv_dtype})


def answer(seed):
    """(the report, what `memory` says of the same), or the reason why a question is refused."""
    command, model, asked = question(seed)
    try:
        report = COMMANDS[command](model, **asked)
    except ArchError as error:
        return str(error)
    return report, archcli.count_memory(model, **asked) if command == "predict" else None


OF_TIMES = ("floor", "low", "expected", "high")
OF_RATES = ("low", "expected", "high", "floor")


def in_order(figures, names):
    """Whether figures rise by their names; of a device without constants there is a floor alone."""
    known = [figures[name] for name in names if figures[name] is not None]
    return all(low <= high * (1 + 1e-9) for low, high in pairwise(known))


def check(report, memory):
    totals = report.totals
    for name in ("time_s", "first_token_s", "per_token_s"):
        assert name not in totals or in_order(totals[name], OF_TIMES), name
    assert in_order(totals["tokens_per_s"], OF_RATES), totals["tokens_per_s"]
    needed = memory.totals["peak_bytes"] + memory.totals["beyond_bytes"]
    assert (totals["needed_bytes"], totals["fits"]) == (needed, memory.totals["fits"])
    for name in ("dtype", "plan", "engine", "kv_dtype"):
        if name in report.inputs:  # of training predict names no engine
            assert report.inputs[name] == memory.inputs[name], name


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(300))
def test_a_question_is_answered_in_order_and_in_agreement(seed):
    found = answer(seed)
    if isinstance(found, str):
        assert any(reason in found for reason in REFUSED), (question(seed), found)
        return
    report, memory = found
    if memory is not None:
        check(report, memory)


@pytest.mark.long
def test_of_300_questions_few_are_refused():
    """Of engines alone, which are chosen before anything is counted: at most 50 of 300."""
    refused = [seed for seed in range(300) if _is_refused(seed)]
    assert len(refused) <= 50


def _is_refused(seed):
    asked = question(seed)[2]
    other_type = asked.get("engine") == "transformers" and asked.get("kv_dtype") is not None
    packed = asked.get("dtype") in ENGINES["trtllm"]["native_only"]
    return other_type or (asked.get("engine") == "trtllm" and packed)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("device", [*devices(), "2xm3-ultra", "2xryzen-ai-max-395", "3xjetson-orin-32gb"])
def test_every_format_is_answered_on_every_device(device):
    refused = []
    for stored_as in NAMED:
        try:
            asked = {"phase": "decode", "seq_len": 64, "dtype": stored_as, "device": device}
            check(archcli.predict("qwen3-0.6b", **asked), archcli.count_memory("qwen3-0.6b", **asked))
        except ArchError as error:
            refused.append((stored_as, str(error)))
    assert refused == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "device", "changed"),
    [
        ("llama-3.1-8b", "2xdgx-spark", {"dtype": "fp8"}),
        ("llama-3.1-8b", "3xa30", {}),
        pytest.param("qwen3-32b", "6xrtx-3090", {"dtype": "awq-int4"}, marks=pytest.mark.long),
        pytest.param("llama-3.1-70b", "16xh100-sxm", {}, marks=pytest.mark.long),
        ("qwen3-30b-a3b", "3xrtx-4090", {"dtype": "q4_k_m"}),
        pytest.param("gemma-3-27b", "12xa100-sxm-80gb", {}, marks=pytest.mark.long),
    ],
)
def test_more_sequences_and_more_tokens_take_no_less_time(model, device, changed):
    """Whatever plan the devices have for each size, to the largest that fits."""
    batches = [{"batch_size": 2**n} for n in range(6)] + [{"batch_size": 3}, {"batch_size": 6}]
    lengths = [{"batch_size": 4, "seq_len": 512 * 2**n} for n in range(6)]
    for sizes in (sorted(batches, key=lambda size: size["batch_size"]), lengths):
        reports = [archcli.predict(model, device, **{"seq_len": 2048} | size, **changed) for size in sizes]
        times = [report.totals["time_s"] for report in reports if report.totals["fits"]]
        for less, more in pairwise(times):
            assert all(less[name] is None or less[name] <= more[name] * (1 + 1e-9) for name in less), times
