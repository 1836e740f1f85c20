"""Devices that come with archcli, and mistakes in a file of one's own."""

import pytest

from archcli.errors import ArchError
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from archcli.wings.serving.devices.datasheet import (
    FIGURES,
    INSTANCES,
    OF_LABEL,
    devices,
    folder,
    load_datasheet,
    read_datasheet,
)
from table import every_row

MINE = """name: mine
vendor: NVIDIA
kind: gpu
source: a leaflet
certainty: B
memory_gb: 24
bandwidth_gb_s: {value: 1008, certainty: A, source: measured}
"""


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
    "estimate": ("24", "~plenty", 'mine.yaml:6:12: memory_gb must be a number above 0, not "~plenty"'),
    "sizes": ("memory_gb: 24", "memory_sizes: 24", "memory_sizes are such as [8gb, 16gb], or bytes of each"),
    "size": ("memory_gb: 24", "memory_sizes: [24]", "memory_sizes has an entry that is no size such as 16gb"),
    "bytes": (
        "memory_gb: 24",
        "memory_sizes: {8gb: -1}",
        "memory_sizes.8gb must be a number above 0, not -1",
    ),
    "series": (
        "memory_gb: 24",
        "variants: {}",
        "mine.yaml:6:1: unknown key 'variants'; a file of one's own describes one device",
    ),
    "itself": ("memory_gb: 24", "same_chip: mine.yaml", "same_chip names a device of `archcli devices`"),
    "lender": ("memory_gb: 24", "same_chip: h1000", "no device 'h1000'; did you mean h100-"),
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


def test_names_are_found_without_parsing():
    """A variant begins a line of its own in the file of its series."""
    names = []
    for path in {*folder().glob("*.yaml")} - {folder() / INSTANCES}:
        keys = plain(parse(text_of(path.read_text(), path.name)).root)
        names += keys.get("variants", [path.stem])
    assert sorted(names) == devices()


SERIES = """vendor: NVIDIA
kind: gpu
source: a leaflet
certainty: B
estimates: a review
variants:
  small: {memory_gb: 8, bandwidth_gb_s: 400, bf16_tflops: ~20.5}
  large: {memory_sizes: [16gb, 32gb], bandwidth_gb_s: 800, source: another leaflet}
"""


def test_a_variant_has_the_keys_of_its_file_and_its_own():
    small, large = (read_datasheet(SERIES, "series.yaml", name) for name in ("small", "large"))
    assert (small.name, small.vendor, small.memory_sizes) == ("small", "NVIDIA", {})
    assert small.figures["bf16_tflops"] == (20.5, "C", "a review")
    assert small.figures["bandwidth_gb_s"] == (400, "B", "a leaflet")
    assert large.figures["bandwidth_gb_s"] == (800, "B", "another leaflet")
    assert large.figures["memory_bytes"] == (32 * 2**30, "C", OF_LABEL)
    assert [large.of_size(size).figures["memory_gb"].value for size in (16, 32)] == [16, 32]


SIZES = "memory_sizes: {8gb: 8000000000, 16gb: {value: 16000000000, certainty: A, source: measured}}"


def test_a_memory_of_several_sizes_has_bytes_of_each():
    device = read_datasheet(MINE.replace("memory_gb: 24", SIZES), "mine.yaml")
    assert device.figures["memory_bytes"] == (16_000_000_000, "A", "measured")
    smaller = device.of_size(8)
    assert (smaller.name, smaller.figures["memory_bytes"].value) == ("mine:8gb", 8_000_000_000)
    with pytest.raises(ArchError, match="no memory of 24 GB; it is sold with 8 GB or 16 GB"):
        device.of_size(24)


def test_a_device_of_the_same_chip_borrows_its_constants():
    lender = load_datasheet("h100-sxm").efficiency
    device = read_datasheet(MINE + "same_chip: h100-sxm\n", "mine.yaml")
    assert set(device.efficiency) == {"matrix_products", "memory_bound", "attention"}
    lent = device.efficiency["matrix_products"]["bf16"]
    assert lent == {**lender["matrix_products"]["bf16"], "fitted_on": "h100-sxm"}
    linked = read_datasheet(MINE + "same_chip: h100-sxm\nlink: NVLink 4\n", "mine.yaml")
    assert set(linked.efficiency) == set(lender)


def test_engines_at_half_the_rate_reach_more_of_their_peak_than_the_lenders():
    lent, geforce = (load_datasheet(name) for name in ("l40s", "rtx-4090"))
    product, slower = (sheet.efficiency["matrix_products"]["bf16"] for sheet in (lent, geforce))
    # TFLOP/s: the engines add up in fp32 at 2 x fp32 in place of 3.95 x
    rate = (165.2 / 82.6) / (362 / 91.6)
    joined = 1 + rate ** product["exponent"] * ((1 / product["compute"]) ** product["exponent"] - 1)
    assert slower["compute"] == pytest.approx(joined ** (-1 / product["exponent"]))
    # more of its peak, and of TFLOP/s less
    assert product["compute"] < slower["compute"] < 1
    assert slower["compute"] * 165.2 < product["compute"] * 362
    assert slower["memory"] == product["memory"]
