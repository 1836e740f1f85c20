"""The `efficiency` of a device's YAML: what is read, and mistakes with their places."""

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices.datasheet import devices, load_datasheet, read_datasheet
from table import every_row

ORIGIN = "error: 0, low: 0.9, high: 1.1, rows: 9, table: x, fitted: 2026-11-23"
MINE = f"""name: mine
vendor: NVIDIA
kind: gpu
source: a leaflet
certainty: B
efficiency:
  communication:
    "8": {{latency_us: 30, link: 0.8, small_low: 0.5, small_high: 2, {ORIGIN}}}
  attention:
    bf16: {{compute: 0.2, {ORIGIN}, fitted_on: other}}
"""


def test_constants_are_read_as_stated():
    stated = read_datasheet(MINE, "mine.yaml").efficiency
    assert list(stated) == ["communication", "attention"]
    assert stated["communication"]["8"]["link"] == 0.8
    assert stated["attention"]["bf16"] == {
        "compute": 0.2,
        "error": 0,
        "low": 0.9,
        "high": 1.1,
        "rows": 9,
        "table": "x",
        "fitted": "2026-11-23",
        "fitted_on": "other",
    }


def test_a_device_without_constants_has_none():
    assert load_datasheet("v100-sxm-32gb").efficiency == {}


MISTAKES = {
    "group": ("attention:", "atention:", "mine.yaml:9:3: unknown key 'atention'; did you mean attention?"),
    "dtype": ("bf16:", "bf61:", "mine.yaml:10:5: unknown key 'bf61'; did you mean bf16?"),
    "size": ('"8"', '"1"', "mine.yaml:8:5: '1' is no size of a group of devices; a number from 2"),
    "key": ("latency_us", "latncy_us", "mine.yaml:8:11: unknown key 'latncy_us'; did you mean latency_us?"),
    "missing": ("compute: 0.2, ", "", "mine.yaml:10:5: efficiency.attention.bf16 has no compute"),
    "no origin": (
        "rows: 9, table: x, fitted: 2026-11-23, ",
        "",
        "efficiency.attention.bf16 has no table; where the measurements are",
    ),
    "number": (
        "compute: 0.2",
        "compute: 20%",
        'mine.yaml:10:21: efficiency.attention.bf16.compute must be a number from 0.0001 to 4, not "20%"',
    ),
    "above": ("compute: 0.2", "compute: 20", "compute must be a number from 0.0001 to 4, not 20"),
    "true": ("compute: 0.2", "compute: true", "compute must be a number from 0.0001 to 4, not true"),
    "date": (
        "2026-11-23}",
        "today}",
        'communication.8.fitted must be a date such as 2026-11-23, not "today"',
    ),
    "text": ("fitted_on: other", "fitted_on: 3", "efficiency.attention.bf16.fitted_on must be text, not 3"),
    "range": ("low: 0.9", "low: 1.9", "mine.yaml:8:84: efficiency.communication.8.low is above high, 1.1"),
    "entry": ("{compute", "[compute", "efficiency.attention.bf16 must be a mapping"),
    "entries": (
        "  attention:\n    bf16: {compute",
        "  attention: 3\nremark: {compute",
        "efficiency.attention must be a mapping, not 3",
    ),
}


@every_row("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(name):
    old, new, told = MISTAKES[name]
    assert old in MINE
    text = MINE.replace(old, new)
    text = text.replace("other}", "other]") if name == "entry" else text
    with pytest.raises(ArchError) as caught:
        read_datasheet(text, "mine.yaml")
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["efficiency: 3", "efficiency: [1]", "efficiency: none"])
def test_constants_are_a_mapping(text):
    with pytest.raises(ArchError, match=r"mine.yaml:6:\d+: efficiency must be a mapping, not "):
        read_datasheet(MINE.partition("efficiency:")[0] + text, "mine.yaml")


@every_row("name", devices())
def test_every_shipped_constant_says_where_it_is_from(name):
    for group in load_datasheet(name).efficiency.values():
        for entry in group.values():
            assert entry["table"]
            assert entry["low"] < entry["high"]
            assert entry.get("fitted_on", "") in ("", *devices())
