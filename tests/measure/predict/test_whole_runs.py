"""Constants of whole runs: fitted anew, worked out by hand, and against the published runs."""

import sys
from pathlib import Path
from statistics import mean, median

import numpy as np
import pytest

import archcli
from archcli.wings.serving.devices.engines import load_speeds
from archcli.wings.serving.predict.constants import Rates
from archcli.wings.serving.predict.engine_kernels.whole_runs import ONE, PROMPT, SEVERAL, WholeRuns, peak
from archcli.wings.serving.predict.times import Seconds, chunked

ROOT = Path(__file__).parents[3]
TERA = 1e12


@pytest.fixture(scope="module")
def fits():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from engine_fits import asked, whole_runs
    finally:
        sys.path.pop(0)
    return asked, whole_runs


@pytest.mark.long
def test_the_constants_are_those_of_a_fit(fits):
    asked, whole_runs = fits
    found = whole_runs.renew("mlx", list(asked.rows()), write=False)
    stated = load_speeds("mlx")["speeds"]
    assert {*found} == {*stated}
    for family, constants in found.items():
        for name in ("generation", "prompt", "launch_us", "memory", "experts"):
            assert stated[family][name] == pytest.approx(constants[name], rel=0.02)
        for kind, ends in constants["kinds"].items():
            assert stated[family]["kinds"][kind] == pytest.approx(ends, rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize(("load", "most_error"), [(ONE, 0.12), (SEVERAL, 0.2), (PROMPT, 0.25)])
def test_published_runs_of_one_device(fits, load, most_error):
    """Three of four in the range, and the median within what is claimed. Few are faster than the limit."""
    asked, whole_runs = fits
    errors, inside, beyond = [], [], 0
    for row in asked.rows():
        if row.engine not in whole_runs.ENGINES or row.phase == "serve" or whole_runs.load(row) != load:
            continue
        if not whole_runs.fits(row):
            continue
        seconds = row.question.answer().prediction.seconds
        beyond += row.measured_s < 0.999 * seconds.floor
        if seconds.is_calibrated:
            errors.append(abs(seconds.expected / row.measured_s - 1))
            inside.append(seconds.low <= row.measured_s <= seconds.high)
    assert len(errors) > 50
    assert median(errors) <= most_error
    assert mean(inside) >= 0.75
    assert beyond <= 0.01 * len(errors)


def test_a_range_of_few_rows_reaches_the_next_row_outwards(fits):
    """Of 9 rows 80% may be anything between the ends; of 99 the ninth from each end is the border."""
    _, whole_runs = fits
    assert whole_runs.range_of(np.arange(1.0, 10.0)) == (1.0, 9.0)
    assert whole_runs.range_of(np.arange(1.0, 100.0)) == (10.0, 90.0)


KIND = {"rows": 3, "devices": 3, "error": 0.1, "low": 0.9, "high": 1.2}
SPEED = {
    "launch_us": 4.0,
    "memory": 0.8,
    "attention": 0.3,
    "experts": 0.5,
    "generation": {"quantized": 0.2, "plain": 0.4},
    "prompt": {"quantized": 0.5, "plain": 0.6},
    "kinds": {"one dense": KIND, "several dense": KIND, "prompt dense": {**KIND, "high": 1.5}},
    "devices": {"slow": {"generation": 1.25}},
    "table": "made up",
    "fitted": "2026-11-26",
}


def running(form, name="made up", **changes):
    """An engine on a device of 40 TFLOP/s in fp32, 80 in bf16, 320 TOP/s in int8 and 500 GB/s."""
    rates = Rates(name, {"bf16": 80 * TERA, "fp32": 40 * TERA, "int8": 320 * TERA}, 500e9)
    asked = {"quantized": form == "quantized", "mixture": False} | changes
    return WholeRuns.of(SPEED, name, rates, **asked)


@pytest.mark.parametrize(("form", "token", "prompt"), [("quantized", 0.2, 0.5), ("plain", 0.4, 0.6)])
def test_a_token_takes_the_ordinary_units_and_a_prompt_those_of_matrices(form, token, prompt):
    runs, half = running(form), 320 * TERA / 2
    assert runs.rates.peak("fp16") == runs.rates.peak("bf16") == half
    generated = runs.efficiency(ONE, 1)
    assert generated.products("bf16").compute * half == pytest.approx(token * 40 * TERA)
    assert generated.products("fp32").compute == pytest.approx(token)
    assert generated.products("bf16").origin.high == SPEED["kinds"]["one dense"]["high"]
    prefilling = runs.efficiency(PROMPT, 512)
    assert prefilling.products("bf16").compute == prompt
    assert prefilling.experts("bf16").compute == prompt * SPEED["experts"]
    assert prefilling.products("bf16").origin.high == SPEED["kinds"]["prompt dense"]["high"]
    for efficiency in (generated, prefilling):
        assert efficiency.attention("fp16").compute == SPEED["attention"]
        assert efficiency.memory_bound("normalization").launch == pytest.approx(4e-6)


def test_a_device_that_was_measured_often_has_a_factor_of_its_own():
    usual, slow = (running("plain", name).efficiency(ONE, 1) for name in ("made up", "slow"))
    assert slow.memory_bound("addition").launch == pytest.approx(1.25 * usual.memory_bound("addition").launch)
    assert slow.products("fp32").memory == pytest.approx(usual.products("fp32").memory / 1.25)
    assert slow.products("fp32").compute == pytest.approx(usual.products("fp32").compute / 1.25)


def test_a_kind_has_a_factor_beside_that_of_the_device():
    kinds = SPEED["kinds"] | {"one dense": KIND | {"slower": 1.2}}
    usual, slow = (running("plain", name) for name in ("made up", "slow"))
    slow = slow._replace(speed=SPEED | {"kinds": kinds})
    assert slow.efficiency(ONE, 1).products("fp32").compute == pytest.approx(
        usual.efficiency(ONE, 1).products("fp32").compute / 1.25 / 1.2
    )
    assert slow.efficiency(PROMPT, 512).products("fp32") == usual.efficiency(PROMPT, 512).products("fp32")


def test_latents_of_a_prompt_are_read_as_they_are_cached():
    """deepseek2.cpp builds attention on the latent cache: no product makes keys and values of it."""
    asked = {"dtype": "q4_k_m", "phase": "prefill", "seq_len": 512}
    paths = {
        engine: {
            row["path"]
            for row in archcli.predict("deepseek-v2-lite", "rtx-4090", engine=engine, **asked).rows
        }
        for engine in ("llamacpp", "none")
    }
    both = {"q_absorb", "kv_b_proj"}
    of = {engine: {path.rpartition(".")[2] for path in found} & both for engine, found in paths.items()}
    assert of == {"llamacpp": {"q_absorb"}, "none": {"kv_b_proj"}}


def test_of_a_kind_that_nobody_measured_there_are_no_constants():
    assert running("plain", mixture=True).efficiency(ONE, 1).groups == {}


def test_eight_vectors_take_eight_times_as_long_and_more_no_longer():
    """Seconds are vectors over the fraction: 1, 2, ... 8, 8, until the matrix units take longest."""
    runs = running("quantized")
    one = 1 / runs.efficiency(SEVERAL, 1).products("bf16").compute
    taken = [n / runs.efficiency(SEVERAL, n).products("bf16").compute / one for n in (1, 2, 8, 9, 64, 512)]
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
