"""Scalars by YAML 1.2's core schema, not by YAML 1.1."""

import math

import pytest

from archcli.load.yaml.reader import resolve
from table import every_row

MEANS = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "nULL": "nULL",
    "true": True,
    "False": False,
    "TRUE": True,
    "tRUE": "tRUE",
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "y": "y",
    "0": 0,
    "-7": -7,
    "+7": 7,
    "007": 7,
    "0o17": 15,
    "0x1F": 31,
    "0o9": "0o9",
    "0b1": "0b1",
    "-0x1": "-0x1",
    "1_000": 1000,
    "8_030_261_248": 8_030_261_248,
    "1__0": "1__0",
    "_1": "_1",
    "1_": "1_",
    "1e-5": 1e-5,
    "1E5": 1e5,
    "1.": 1.0,
    ".5": 0.5,
    "-.5e3": -500.0,
    "1e": "1e",
    "e5": "e5",
    ".": ".",
    "-": "-",
    "+": "+",
    "...": "...",
    ".inf": math.inf,
    "-.INF": -math.inf,
    "+.Inf": math.inf,
    "inf": "inf",
    "nan": "nan",
    "-.nan": "-.nan",
    "infinity": "infinity",
    "12:30": "12:30",
    "2024-01-01": "2024-01-01",
    "1,000": "1,000",
    "8k": "8k",
    "٣": "٣",  # ARABIC-INDIC DIGIT THREE: Python's int would take it
    "1٣": "1٣",
}


@every_row(("text", "value"), MEANS.items(), ids=[repr(text) for text in MEANS])
def test_a_scalar_means_what_yaml_1_2_says(text, value):
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


def test_not_a_number_is_one():
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize("text", [41 * "9", "1." + 40 * "9", "0x" + 40 * "f"])
def test_a_number_nobody_means_is_refused(text):
    with pytest.raises(OverflowError):
        resolve(text)
