"""Offload in predict: a kernel in RAM by hand, copies over the bus, monotone, and published runs."""

from itertools import pairwise

import pytest

import archcli
from archcli.wings.serving.devices.engines import load_speeds

GIGA = 1e9
BF16 = 2
MIXTURES = ("mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b", "deepseek-v2-lite", "qwen3-next-80b-a3b")
QUICK = ("smollm2-135m", "gemma-2-2b", "mixtral-8x7b")
OTHERS = ("llama-3.1-8b", "gpt2", "phi-4", "mamba-130m", *MIXTURES[1:])
MODELS = (*QUICK, *(pytest.param(model, marks=pytest.mark.long) for model in OTHERS))
FIGURES = ("floor", "expected", "low", "high")


def predict(model, device="rtx-3090", offload=None, **options):
    asked = {"phase": "decode", "seq_len": 512, "dtype": "bf16", "engine": "llamacpp", **options}
    return archcli.predict(model, device, offload=offload, **asked, **({"ram": "4TiB"} if offload else {}))


def test_a_matrix_in_ram_by_hand():
    """`down_proj` of llama-3.1-8b: 4,096 x 14,336 numbers, read at processors' part of 40 GB/s."""
    speed = load_speeds("llamacpp")["speeds"]["cpu"]
    report = predict("llama-3.1-8b", offload="layers:10", ram_bandwidth="40GB/s")
    (row,) = (
        row for row in report.rows if row["path"].endswith("ffn.down_proj") and row["bound_by"] == "ram"
    )
    moved = BF16 * (4096 * 14336 + 4096 + 14336)
    reading = moved / (40 * GIGA * speed["memory"])
    computing = 2 * 4096 * 14336 / (1e12 * speed["generation"]["plain"])
    each = speed["launch_us"] * 1e-6 + (reading**2 + computing**2) ** 0.5
    assert row["times"] == 10
    assert row["time_s"] == pytest.approx(10 * each, rel=1e-6)
    assert row["floor_s"] == pytest.approx(10 * moved / (40 * GIGA), rel=1e-6)


def test_layers_on_the_device_take_what_they_took():
    """What the device still has takes as long as its part of the whole."""
    whole, less = predict("llama-3.1-8b"), predict("llama-3.1-8b", offload="layers:10")
    name = "layers.*.ffn.down_proj"
    (alone,) = (row for row in whole.rows if row["path"].endswith("ffn.down_proj"))
    (here,) = (row for row in less.rows if row["path"] == alone["path"] and row["bound_by"] != "ram")
    assert here["times"] == 22, name
    assert here["time_s"] == pytest.approx(alone["time_s"] * 22 / 32)


def test_a_prompt_copies_matrices_over_the_bus_once_a_chunk():
    """10 layers of llama-3.1-8b, in a prompt of three chunks of 512, at 20 GB/s."""
    layer = 2 * 4096 + 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    asked = {"phase": "prefill", "seq_len": 1200}
    whole = predict("llama-3.1-8b", **asked)
    less = predict("llama-3.1-8b", offload="layers:10", bus_bandwidth="20GB/s", **asked)
    (bus,) = (row for row in less.rows if row["path"] == "bus")
    assert (bus["bytes"], bus["bound_by"]) == (3 * 10 * layer * BF16, "bus")
    assert bus["time_s"] == pytest.approx(3 * 10 * layer * BF16 / (20 * GIGA))
    more = less.totals["time_s"]["expected"] - whole.totals["time_s"]["expected"]
    assert more == pytest.approx(bus["time_s"])
    assert not any(row["bound_by"] == "ram" for row in less.rows)


def test_a_short_prompt_runs_in_ram():
    rows = predict("llama-3.1-8b", offload="layers:10", phase="prefill", seq_len=31).rows
    assert any(row["bound_by"] == "ram" for row in rows)
    (bus,) = (row for row in rows if row["path"] == "bus")
    assert bus["bytes"] == 31 * 4096 * 4


def test_experts_in_ram_leave_attention_on_the_device():
    rows = predict("mixtral-8x7b", offload="experts").rows
    in_ram = {row["path"] for row in rows if row["bound_by"] == "ram"}
    assert in_ram
    assert all(".ffn." in path for path in in_ram)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("model", MODELS)
def test_more_in_ram_is_never_faster(model):
    n_layers = sum(group.n_layers for group in archcli.load(model).groups)
    kinds = ["layers", *(["experts"] if model in MIXTURES else [])]
    passes = [("decode", 1024, 1), ("decode", 64, 40), ("prefill", 16, 1), ("prefill", 700, 1)]
    for kind in kinds:
        for phase, seq_len, batch_size in passes:
            asked = {"phase": phase, "seq_len": seq_len, "batch_size": batch_size}
            offloads = (None, *(f"{kind}:{n}" for n in (1, n_layers // 2, n_layers)))
            times = [predict(model, offload=offload, **asked).totals["time_s"] for offload in offloads]
            for name in FIGURES:
                longer = pairwise(time[name] for time in times)
                assert all(b >= a * (1 - 1e-9) for a, b in longer), (kind, phase, name)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", ["decode", "prefill", "serve"])
def test_the_rows_add_up_to_the_time(phase):
    for model, offload in (("llama-3.1-8b", "layers:9"), ("gpt-oss-20b", "experts:7")):
        report = predict(model, offload=offload, phase=phase, seq_len=200)
        assert sum(row["time_s"] for row in report.rows) == pytest.approx(report.totals["time_s"]["expected"])


@pytest.mark.long
def test_the_rates_and_the_options_of_llama_cpp_are_said():
    report = predict("llama-3.1-70b", offload="auto", dtype="q4_k_m", ram_bandwidth="51.2GB/s")
    offload = report.totals["offload"]
    assert (report.totals["fits"], offload["experts"]) == (True, False)
    notes = "\n".join(report.notes)
    assert f"llama.cpp's -ngl {81 - offload['layers']}." in notes
    assert "51.2 GB/s of RAM and 25 GB/s of the bus" in notes


@pytest.mark.long
def test_a_faster_ram_and_bus_make_more_tokens():
    for phase, name in (("decode", "ram_bandwidth"), ("prefill", "bus_bandwidth")):
        rates = [
            predict("llama-3.1-8b", offload="layers:16", phase=phase, **{name: rate}).totals["tokens_per_s"]
            for rate in ("20GB/s", "40GB/s")
        ]
        assert rates[0]["expected"] < rates[1]["expected"]


def test_the_search_for_a_plan_takes_no_offload():
    with pytest.raises(archcli.ArchError, match="without --offload"):
        predict("llama-3.1-8b", "2xrtx-3090", offload="layers:1", fit="time")


@pytest.mark.long
def test_a_curve_and_a_fit_keep_the_offload():
    points = predict("llama-3.1-8b", "rtx-3060", offload="layers:20", curve="context").totals["curve"]
    assert [point["fits"] for point in points[:2]] == [True, True]
    asked = {"phase": "serve", "engine": "llamacpp", "device": "rtx-3060", "fit": "context"}
    few, more = (
        archcli.count_memory("llama-3.1-8b", dtype="bf16", offload=offload, **asked).totals["fit"]["value"]
        for offload in ("layers:14", "layers:20")
    )
    assert few < more
    # of what lies in RAM, as well
    held = archcli.count_memory("llama-3.1-8b", dtype="bf16", offload="layers:20", ram="11GiB", **asked)
    assert held.totals["fit"]["value"] < more


SWEEP = ((0, 2.89), (8, 3.58), (16, 4.24), (24, 5.61), (32, 7.26), (40, 12.5))
"""(-ngl, tokens a second) of Qwen2.5-Coder 14B as q4_k_m on an RTX 5060 Ti with DDR4-2400 and PCIe 3 x8:
inventivehq.com/blog/vram-offload-cliff-gpu-layers-benchmark."""
HELD = ((8, 2161), (16, 3509), (24, 4875), (32, 6241), (40, 7593))
"""(-ngl, MB) that the same runs took of the card."""


def published(ngl):
    """The prediction of a run of the sweep: 48 layers, and the head as one more."""
    asked = {"offload": f"layers:{min(48, 49 - ngl)}", "ram_bandwidth": "38.4GB/s", "bus_bandwidth": "6GB/s"}
    return predict("qwen2.5-14b", "rtx-5060-ti-16gb", dtype="q4_k_m", **asked).totals


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(("ngl", "measured"), SWEEP)
def test_a_published_sweep_of_layers_is_in_the_range(ngl, measured):
    rates = published(ngl)["tokens_per_s"]
    assert rates["low"] <= measured <= rates["high"]
    assert rates["expected"] == pytest.approx(measured, rel=0.2)
    assert rates["floor"] >= measured


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(("ngl", "megabytes"), HELD)
def test_and_so_is_what_it_held(ngl, megabytes):
    assert published(ngl)["needed_bytes"] / 2**20 == pytest.approx(megabytes, rel=0.05)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("experts", "tokens", "measured"), [(25, 1, 33.14), (26, 1, 32.29), (28, 1, 30.05), (26, 4096, 380.27)]
)
def test_published_runs_of_experts_are_within_a_third(experts, tokens, measured):
    """gpt-oss-120b on an RTX 3090; the RAM is not stated: ai-maestro.online, of --n-cpu-moe and -ub 512."""
    asked = {"phase": "decode"} if tokens == 1 else {"phase": "prefill", "seq_len": tokens}
    rates = predict("gpt-oss-120b", offload=f"experts:{experts}", dtype=None, **asked).totals["tokens_per_s"]
    assert rates["expected"] == pytest.approx(measured, rel=1 / 3)
    assert rates["floor"] >= measured
