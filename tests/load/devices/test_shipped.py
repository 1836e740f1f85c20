"""Figures of the devices that come with archcli: laws that all obey, and some typed from datasheets."""

import pytest

import archcli
from archcli.wings.serving.devices.datasheet import devices, load_datasheet

SHEETS = {name: load_datasheet(name) for name in devices()}
RATES = {name: {key: figure.value for key, figure in sheet.figures.items()} for name, sheet in SHEETS.items()}
SHARED = {"ryzen-ai-max-395", *(name for name, sheet in SHEETS.items() if sheet.vendor == "Apple")}
"""Their processors and GPUs have one memory, of which the driver leaves two or three quarters to the GPU."""
CUT_OFF = {"tpu-v5p"}
"""95.74 GiB are 95 on the label."""
CUT_DOWN = {"gb300"}
"""int8 is slower than fp32 would lead to expect: the generation has next to none of it."""
NO_BF16 = {"sm_60", "sm_70", "sm_75", "gfx906"}
"""Pascal, Volta, Turing and Vega."""


def test_every_device_says_what_it_holds_and_where_each_figure_is_from():
    for name, sheet in SHEETS.items():
        assert sheet.name == name
        assert {"memory_bytes", "memory_gb", "bandwidth_gb_s"} <= set(sheet.figures), name
        assert all(figure.source and figure.certainty in "ABC" for figure in sheet.figures.values()), name


def test_rates_are_dense():
    """A rate with sparsity is twice the dense one: fp8 would be four times bf16, or bf16 four times tf32."""
    pairs = [("fp8_tflops", "bf16_tflops"), ("bf16_tflops", "tf32_tflops")]
    ratios = {
        (name, wide): rate[wide] / rate[narrow]
        for name, rate in RATES.items()
        for wide, narrow in pairs
        if {wide, narrow} <= set(rate)
    }
    assert {key: ratio for key, ratio in ratios.items() if not 0.99 <= ratio < 2.1} == {}


def test_narrow_numbers_are_no_slower_than_wide_ones():
    order = ("fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops", "fp8_tflops", "fp4_tflops")
    slower = []
    for name, rate in RATES.items():
        known = [rate[key] for key in order if key in rate]
        slower += [name] if known != sorted(known) else []
    assert slower == []


def test_devices_without_bf16_state_none():
    found = {name for name, rate in RATES.items() if "bf16_tflops" not in rate}
    old = {name for name, sheet in SHEETS.items() if sheet.architecture in NO_BF16}
    assert found == old | {name for name, sheet in SHEETS.items() if sheet.vendor == "Apple"}
    assert all("fp16_tflops" in RATES[name] for name in found)


def test_the_bandwidth_is_that_of_the_bus():
    for name, rate in RATES.items():
        if "bus_bits" in rate:
            assert rate["bus_bits"] * rate["pin_gbit_s"] / 8 == pytest.approx(
                rate["bandwidth_gb_s"], rel=0.005
            ), name
    assert sum("bus_bits" in rate for rate in RATES.values()) > 50


def test_a_driver_reports_little_less_than_the_label():
    for name, rate in RATES.items():
        label, reported = rate["memory_gb"], rate["memory_bytes"]
        assert isinstance(reported, int), name
        assert label * 2**30 * (2 / 3 - 1e-9 if name in SHARED else 9 / 10) <= reported, name
        assert reported <= (label + (name in CUT_OFF)) * 2**30, name


TYPED = {
    "rtx-3080": (10, 760.3, 59.5, 29.8),
    "rtx-3060": (12, 360, 25.5, 12.7),
    "rtx-4080": (16, 716.8, 97.5, 48.7),
    "rtx-4070-ti": (12, 504.2, 80.2, 40.1),
    "rtx-5080": (16, 960, 112.6, 56.3),
    "rtx-5070-ti": (16, 896, 87.9, 43.9),
    "rtx-a6000": (48, 768, 154.8, 38.7),
    "rtx-6000-ada": (48, 960, 364.25, 91.1),
    "a10": (24, 600, 125, 31.2),
    "a30": (24, 933, 165, 10.3),
    "a40": (48, 696, 149.7, 37.4),
    "l40": (48, 864, 181.05, 90.5),
    "h20": (96, 4000, 148, 44),
    "mi210": (64, 1638.4, 181, 22.6),
    "rx-7900-xtx": (24, 960, 122.8, 61.4),
}
"""GB, GB/s, and dense TFLOP/s of bf16 and fp32 as the makers print them, sparse ones halved."""
TYPED_FP16 = {
    "t4": (16, 320, 65, 8.1),
    "rtx-2080-ti": (11, 616, 53.8, 13.4),
    "p100-sxm-16gb": (16, 732, 21.2, 10.6),
    "v100-pcie-16gb": (16, 900, 112, 14),
    "m1": (16, 68.3, 2.6, 2.6),
    "m2-ultra": (192, 800, 27.2, 27.2),
    "m5-pro": (64, 307, 32.8, 8.2),
}


@pytest.mark.parametrize(("typed", "half"), [(TYPED, "bf16_tflops"), (TYPED_FP16, "fp16_tflops")])
def test_figures_are_those_of_the_datasheets(typed, half):
    keys = ("memory_gb", "bandwidth_gb_s", half, "fp32_tflops")
    for name, figures in typed.items():
        assert [RATES[name][key] for key in keys] == pytest.approx(figures, rel=0.005), name


MEASURED = {
    "4080 16GB": 40.29,
    "RTX 4000 Ada 20GB": 20.85,
    "RTX 5000 Ada 32GB": 32.67,
    "RTX A6000 48GB": 40.25,
    "RTX 6000 Ada 48GB": 51.97,
    "A40 48GB": 33.95,
    "M1 Max 32-Core GPU 64GB": 18.43,
}
"""Tokens a second that llama.cpp generates of Llama 3 8B in F16, and the table's names of the devices."""
OUT_OF_MEMORY = ("3070 8GB", "3080 10GB", "3080 Ti 12GB", "4070 Ti 12GB", "M1 7-Core GPU 8GB")
"""Devices on which that table has the same model run out of memory."""


@pytest.mark.long
def test_measured_speeds_are_below_the_limit_and_near_it():
    """XiongjieDai/GPU-Benchmarks-on-LLM-Inference, README.md at aa72e0e: a wrong bandwidth would show."""
    model = archcli.load("llama-3-8b")
    for device, rate in MEASURED.items():
        found = archcli.predict(model, device, past=1024, dtype="fp16", engine="none").totals
        assert 0.7 < rate / found["tokens_per_s"]["floor"] < 1, device
        assert found["fits"], device
    weights = archcli.memory(model, phase="decode", engine="none").totals["peak_bytes"]
    assert all(load_datasheet(device).figures["memory_bytes"].value < weights for device in OUT_OF_MEMORY)


def test_a_smaller_gpu_of_a_chip_is_smaller():
    smaller = [name for name in devices() if name.endswith("-core")]
    assert len(smaller) > 15
    for name in smaller:
        larger = RATES[name.rsplit("-", 2)[0]]
        assert RATES[name]["fp32_tflops"] < larger["fp32_tflops"], name
        assert RATES[name]["bandwidth_gb_s"] <= larger["bandwidth_gb_s"], name


def test_lenders_are_of_the_same_architecture_and_have_constants():
    borrowers = {name: sheet for name, sheet in SHEETS.items() if sheet.same_chip}
    assert {"h100-pcie", "a100-pcie-80gb", "rtx-4090", "h20", "l40", "rtx-3090", "a10g"} <= set(borrowers)
    for name, sheet in borrowers.items():
        assert sheet.architecture == SHEETS[sheet.same_chip].architecture, name
        assert not SHEETS[sheet.same_chip].same_chip, name
        assert "matrix_products" in sheet.efficiency, name


def check_answers(names):
    """A prediction on each device is in order, and each has a memory to fit into."""
    model = archcli.load("llama-3.1-8b")
    for name in names:
        seconds = archcli.predict(model, name).totals["time_s"]
        assert seconds["floor"] > 0, name
        if seconds["expected"] is not None:
            assert seconds["floor"] <= seconds["low"] <= seconds["expected"] <= seconds["high"], name
        assert archcli.memory(model, device=name, phase="serve").totals["peak_bytes"] > 0, name


@pytest.mark.long
def test_predictions_and_memories_are_answered_for_a_device_of_each_maker_and_architecture():
    alike = {(sheet.vendor, sheet.architecture): name for name, sheet in SHEETS.items()}
    check_answers(alike.values())


@pytest.mark.long
def test_predictions_and_memories_are_answered_for_every_device():
    check_answers(devices())
