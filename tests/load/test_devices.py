"""Devices that come with archcli, and mistakes in a file of one's own."""

import pytest

from archcli.errors import ArchError
from archcli.load.devices.datasheet import FIGURES, OF_LABEL, devices, folder, load_datasheet, read_datasheet
from table import every_row

MINE = """name: mine
vendor: NVIDIA
kind: gpu
source: a leaflet
certainty: B
memory_gb: 24
bandwidth_gb_s: {value: 1008, certainty: A, source: measured}
"""


@every_row("name", devices())
def test_every_device_can_be_read_and_says_what_it_holds(name):
    device = load_datasheet(name)
    assert device.name == name
    assert {"memory_bytes", "memory_gb", "bandwidth_gb_s"} <= set(device.figures)
    assert all(figure.source and figure.certainty in "ABC" for figure in device.figures.values())


@every_row("name", devices())
def test_rates_are_dense(name):
    """A rate with sparsity is twice the dense one: fp8 would be four times bf16, or bf16 four times tf32."""
    rate = {key: figure.value for key, figure in load_datasheet(name).figures.items()}
    pairs = [("fp8_tflops", "bf16_tflops"), ("bf16_tflops", "tf32_tflops")]
    ratios = [rate[wide] / rate[narrow] for wide, narrow in pairs if {wide, narrow} <= set(rate)]
    assert all(1 <= ratio < 2.1 for ratio in ratios)


def test_memory_is_what_the_driver_reports_or_the_label():
    """H100: 79.1 GiB of a label of 80; A100: 39.4 of 40; MI325X: the label of 256."""
    known = {name: load_datasheet(name).figures["memory_bytes"] for name in devices()}
    assert known["h100-sxm"][:2] == (84_932_978_278, "B")
    assert known["a100-sxm-40gb"][:2] == (42_305_427_865, "B")
    assert [known[name].value for name in ("h100-sxm", "a100-sxm-40gb")] == [
        791 * 2**30 // 10,
        394 * 2**30 // 10,
    ]
    assert known["mi325x"] == (256 * 2**30, "C", OF_LABEL)


SHARED = {"m2-ultra", "m3-max", "m4-max"}
"""Their processors and GPUs have one memory, of which Metal recommends three quarters for the GPU."""
CUT_OFF = {"tpu-v5p"}
"""95.74 GiB are 95 on the label."""


@every_row("name", devices())
def test_a_driver_reports_little_less_than_the_label(name):
    figures = load_datasheet(name).figures
    reported, label = figures["memory_bytes"].value, figures["memory_gb"].value
    assert isinstance(reported, int)
    assert label * 2**30 * (3 / 4 if name in SHARED else 9 / 10) <= reported
    assert reported <= (label + (name in CUT_OFF)) * 2**30


def test_a_figure_has_the_source_of_its_device_or_its_own():
    figures = read_datasheet(MINE.replace("\n", "\r\n"), "mine.yaml").figures
    assert figures["memory_gb"] == (24, "B", "a leaflet")
    assert figures["bandwidth_gb_s"] == (1008, "A", "measured")
    assert set(figures) == {"memory_bytes", "memory_gb", "bandwidth_gb_s"} < set(FIGURES)


MISTAKES = {
    "unknown": ("memory_gb", "memroy_gb", "mine.yaml:6:1: unknown key 'memroy_gb'; did you mean memory_gb"),
    "missing": ("vendor: NVIDIA\n", "", "mine.yaml: missing key vendor"),
    "text": ("24", "plenty", 'mine.yaml:6:12: memory_gb must be a number above 0, not "plenty"'),
    "negative": ("24", "-24", "mine.yaml:6:12: memory_gb must be a number above 0, not -24"),
    "endless": ("24", ".inf", "mine.yaml:6:12: memory_gb must be a number above 0, not .inf"),
    "kind": ("kind: gpu", "kind: car", 'mine.yaml:3:7: kind must be gpu, tpu, accelerator or cpu, not "car"'),
    "certainty": ("y: B", "y: D", 'mine.yaml:5:12: certainty must be A, B or C, not "D"'),
    "no source": (
        ", source: measured",
        "",
        "mine.yaml:7:1: bandwidth_gb_s must have value, certainty and source",
    ),
    "its value": ("1008", "fast", "mine.yaml:7:25: bandwidth_gb_s.value must be a number above 0"),
    "its certainty": (
        "certainty: A",
        "certainty: 1",
        "mine.yaml:7:42: certainty must be A, B or C, not 1",
    ),
    "no mapping": (MINE, "[1]", "mine.yaml: a device is a mapping"),
    "empty": (MINE, "", "mine.yaml: a device is a mapping"),
}


@every_row("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(name):
    old, new, told = MISTAKES[name]
    assert old in MINE
    with pytest.raises(ArchError) as caught:
        read_datasheet(MINE.replace(old, new), "mine.yaml")
    assert told in str(caught.value)


def test_an_unknown_device_is_told_with_the_nearest():
    with pytest.raises(ArchError, match="no device 'h100-smx'; did you mean h100-sxm"):
        load_datasheet("h100-smx")
    with pytest.raises(ArchError, match=r"missing\.yaml: cannot be read"):
        load_datasheet("missing.yaml")


def test_the_files_lie_in_the_checkout():
    assert {path.stem for path in folder().iterdir()} == set(devices())
