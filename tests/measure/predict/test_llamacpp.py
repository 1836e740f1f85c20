"""llama.cpp's constants: fitted anew, worked out by hand, and against the published runs."""

import csv
import sys
from pathlib import Path
from statistics import mean, median

import pytest

import archcli
from archcli.wings.serving.devices.engines import load_speeds
from archcli.wings.serving.predict.constants import Rates
from archcli.wings.serving.predict.engine_kernels.llamacpp import LlamaCppConstants, peak
from archcli.wings.serving.predict.times import Seconds, chunked

ROOT = Path(__file__).parents[3]
TERA = 1e12


@pytest.fixture(scope="module")
def runs():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from engine_fits import llamacpp
    finally:
        sys.path.pop(0)
    return llamacpp


@pytest.mark.long
@pytest.mark.parametrize("family", ["gpu", "metal"])
def test_the_constants_are_those_of_a_fit(runs, family):
    stated, found = load_speeds("llamacpp")[family], runs.entry(*runs.fitted(family))
    for phase in ("generation", "prompt"):
        assert stated[phase] == pytest.approx(found[phase], rel=0.02)
    for name in ("launch_us", "memory"):
        assert stated[name] == pytest.approx(found[name], rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize(("phase", "most_error"), [("generate", 0.2), ("prompt", 0.25)])
def test_published_runs_of_one_device(runs, phase, most_error):
    """Three of four in the range, whose ends are within a factor of 2, and none faster than the floor."""
    floors, ratios, inside, widths = [], [], [], []
    rows = [row for family in ("gpu", "metal") for row in runs.runs(family) if row["phase"] == phase]
    for row in rows:
        sizes = {"seq_len": int(row["tokens"]), "new": 1}
        if phase == "generate":
            sizes = {"seq_len": 1, "new": int(row["tokens"])}
        asked = {"phase": "serve", "dtype": row["format"], "engine": "llamacpp", **sizes}
        totals = archcli.predict(row["model"], row["device"], **asked).totals
        time, measured = totals["per_token_s" if phase == "generate" else "first_token_s"], runs.measured(row)
        floors.append(time["floor"] / measured)
        ratios.append(time["expected"] / measured)
        inside.append(time["low"] <= measured <= time["high"])
        widths.append(time["high"] / time["low"])
    assert max(floors) < 1
    assert median(floors) >= 0.35
    assert mean(inside) >= 0.75
    assert median(widths) <= 2
    assert mean(abs(ratio - 1) for ratio in ratios) <= most_error
    assert 0.9 <= median(ratios) <= 1.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("phase", "name", "most_error", "least_inside"),
    [("generate", "per_token_s", 0.06, 1.0), ("prompt", "first_token_s", 0.25, 0.7)],
)
def test_published_runs_of_several_devices(runs, phase, name, most_error, least_inside):
    """Nothing is fitted on them."""
    with runs.TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["n_devices"] != "1" and row["phase"] == phase]
    ratios, inside = [], []
    for row in rows:
        tokens = int(row["tokens"])
        sizes = {"seq_len": 1, "new": tokens} if phase == "generate" else {"seq_len": tokens, "new": 1}
        asked = {"phase": "serve", "dtype": row["format"], "engine": "llamacpp", **sizes}
        devices = f"{row['n_devices']}x{row['device']}"
        time, measured = archcli.predict(row["model"], devices, **asked).totals[name], runs.measured(row)
        assert time["floor"] <= measured
        ratios.append(time["expected"] / measured)
        inside.append(time["low"] <= measured <= time["high"])
    assert len(rows) == 18
    assert mean(abs(ratio - 1) for ratio in ratios) <= most_error
    assert mean(inside) >= least_inside


SPEED = {
    "launch_us": 4.0,
    "memory": 0.8,
    "generation": {"quantized": 0.2, "plain": 0.4, "rows": 3, "error": 0.1, "low": 0.9, "high": 1.2},
    "prompt": {"quantized": 0.5, "plain": 0.6, "rows": 3, "error": 0.1, "low": 0.8, "high": 1.5},
    "table": "made up",
    "fitted": "2026-11-26",
}


def running(form):
    """llama.cpp on a device of 40 TFLOP/s in fp32, 80 in bf16, 320 TOP/s in int8 and 500 GB/s."""
    rates = Rates("made up", {"bf16": 80 * TERA, "fp32": 40 * TERA, "int8": 320 * TERA}, 500e9)
    return LlamaCppConstants.of(SPEED, form, rates)


@pytest.mark.parametrize(("form", "token", "prompt"), [("quantized", 0.2, 0.5), ("plain", 0.4, 0.6)])
def test_a_token_takes_the_ordinary_units_and_a_prompt_those_of_matrices(form, token, prompt):
    runs, half = running(form), 320 * TERA / 2
    assert runs.rates.peak("fp16") == runs.rates.peak("bf16") == half
    generated = runs.efficiency("decode", 1)
    assert generated.products("bf16").compute * half == pytest.approx(token * 40 * TERA)
    assert generated.products("fp32").compute == pytest.approx(token)
    assert generated.products("bf16").origin.high == SPEED["generation"]["high"]
    prefilling = runs.efficiency("prefill", 512)
    assert prefilling.products("bf16").compute == prompt
    assert prefilling.products("bf16").origin.high == SPEED["prompt"]["high"]
    for efficiency in (generated, prefilling):
        assert efficiency.attention("fp16").compute == SPEED["prompt"]["plain"]
        assert efficiency.memory_bound("normalization").launch == pytest.approx(4e-6)


def test_eight_vectors_take_eight_times_as_long_and_more_no_longer():
    """Seconds are vectors over the fraction: 1, 2, ... 8, 8, until the matrix units take longest."""
    runs = running("quantized")
    one = 1 / runs.efficiency("decode", 1).products("bf16").compute
    taken = [n / runs.efficiency("decode", n).products("bf16").compute / one for n in (1, 2, 8, 9, 64, 512)]
    of_matrices = 512 * 0.2 * 40 / (0.5 * 160)
    assert taken == pytest.approx([1, 2, 8, 8, 8, of_matrices])


def test_sums_in_fp16_are_twice_as_fast_on_a_geforce_alone():
    """As the whitepapers say: an RTX 4090 has 330 TFLOP/s with them, an RTX A6000 155 with either."""
    assert peak(Rates("rtx-4090", {"bf16": 165.2e12, "int8": 660.6e12}, 1.0)) == 330.3e12
    assert peak(Rates("rtx-a6000", {"bf16": 154.8e12, "int8": 309.7e12}, 1.0)) == pytest.approx(154.85e12)
    assert peak(Rates("m1", {"fp16": 2.6e12, "fp32": 2.6e12}, 1.0)) == 2.6e12


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("device", ["m3-max", "rx-7900-xtx", "grace-72", "rtx-5090", "arc-b580"])
def test_every_family_has_figures_of_all_kinds(device):
    asked = {"dtype": "q4_k_m", "engine": "llamacpp", "phase": "serve", "new": 2, "seq_len": 64}
    totals = archcli.predict("llama-3.2-1b", device, **asked).totals
    for name in ("time_s", "first_token_s", "per_token_s"):
        time = totals[name]
        assert 0 < time["floor"] <= time["low"] <= time["expected"] <= time["high"]


def sent_s(report):
    """Seconds of what devices send each other."""
    return sum(row["time_s"] for row in report.totals["limits"] if row["what"].startswith("communication"))


@pytest.mark.long
def test_a_token_goes_through_all_devices():
    """It takes as long as on one, and what goes from device to device."""
    asked = {"dtype": "q4_k_m", "engine": "llamacpp", "phase": "decode", "seq_len": 1024}
    for batch_size in (1, 6):
        one, four = (
            archcli.predict("llama-3.1-8b", device, batch_size=batch_size, **asked)
            for device in ("rtx-a6000", "4xrtx-a6000")
        )
        assert (four.inputs["n_devices"], four.inputs["plan"]["pp"]) == (4, 4)
        assert 0 < sent_s(four) < 0.001 * four.totals["time_s"]["expected"]
        for name in ("expected", "low", "high"):
            more = four.totals["time_s"][name] - one.totals["time_s"][name]
            assert more == pytest.approx(sent_s(four), rel=1e-6)


def test_chunks_of_a_prompt_follow_one_another():
    """2 chunks through 4 devices take 5 steps; the last device has 7 layers and the head, the first 9."""
    asked = {"dtype": "q4_k_m", "engine": "llamacpp", "phase": "prefill", "seq_len": 1024}
    one, four = (
        archcli.predict("llama-3.1-8b", device, **asked).totals["time_s"]["expected"]
        for device in ("rtx-a6000", "4xrtx-a6000")
    )
    assert (9 + (32 - 9) / 2) / 32 * one == pytest.approx(four, rel=0.02)


@pytest.mark.parametrize(
    ("devices", "chunks", "steps"), [(4, 1, 4), (4, 2, 5), (4, 9, 12), (8, 4, 11), (8, 5, 16), (8, 9, 24)]
)
def test_no_more_than_four_chunks_are_under_way(devices, chunks, steps):
    """Of 8 devices the fifth chunk waits until the first has left the last."""
    slowest, others = Seconds.at_limit(float(chunks)), Seconds.at_limit(float(chunks * (devices - 1)))
    assert slowest.plus(chunked(slowest, others, chunks)).expected == pytest.approx(steps)


@pytest.mark.parametrize("degree", ["tp", "ep", "dp_attention"])
def test_no_matrix_is_split(degree):
    asked = {"dtype": "q4_k_m", "engine": "llamacpp", "device": "4xrtx-a6000", "phase": "decode"}
    plan = {"tp": 4, degree: 4}
    for ask in (archcli.predict, archcli.count_memory):
        with pytest.raises(
            archcli.ArchError, match=r"splits layers, which llama\.cpp gives to devices whole"
        ):
            ask("mixtral-8x7b", **asked, plan=plan)


def test_the_fastest_plan_splits_no_matrix_either():
    asked = {"dtype": "q4_k_m", "engine": "llamacpp", "phase": "decode", "batch_size": 4, "fit": "time"}
    plan = archcli.predict("llama-3.1-8b", "4xrtx-a6000", **asked).totals["fit"]["plan"]
    assert (plan["tp"], plan["ep"], plan["dp"] * plan["pp"]) == (1, 1, 4)


@pytest.mark.long
def test_a_larger_batch_and_a_longer_context_take_no_less():
    asked = {"dtype": "q4_k_m", "engine": "llamacpp"}
    for changed, sizes in (("batch_size", (1, 2, 8, 9, 16, 64, 256)), ("seq_len", (1, 64, 512, 4096))):
        for phase in ("decode", "prefill"):
            reports = [
                archcli.predict(
                    "llama-3.1-8b", "m3-max", phase=phase, **{"seq_len": 64, changed: size}, **asked
                )
                for size in sizes
            ]
            for name in ("floor", "expected", "low", "high"):
                times = [report.totals["time_s"][name] for report in reports]
                assert times == sorted(times)


def test_a_format_that_it_does_not_read():
    with pytest.raises(archcli.ArchError, match=r"llama\.cpp does not read weights in fp8"):
        archcli.predict("llama-3.2-1b", "rtx-4090", dtype="fp8", engine="llamacpp")
