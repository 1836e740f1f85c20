"""Amounts as people write them."""

import pytest

from archcli.errors import ArchError
from archcli.units import parse_bytes, parse_count, parse_dtype, parse_quantity

COUNTS = {
    "0": 0,
    "4096": 4096,
    " 7 ": 7,
    "131_072": 131_072,
    "8k": 8_000,
    "8K": 8 * 1024,
    "1.5k": 1_500,
    "0.5K": 512,
    "007": 7,
}
NO_COUNTS = [
    "",
    "k",
    "-1",
    "+1",
    "1.5",
    "1.0005k",
    "1e3",
    "1,000",
    "8M",
    "8 kk",
    "_1",
    "1__0",
    "٣",
    "0x10",
    "nan",
    31 * "9",
    5000 * "9",
]

QUANTITIES = {
    **COUNTS,
    "1.5M": 1_500_000,
    "70B": 70 * 10**9,
    "70G": 70 * 10**9,
    "1.8T": 1_800 * 10**9,
    "8e9": 8 * 10**9,
    "1.25E+2": 125,
}
NO_QUANTITIES = [
    "",
    "B",
    "e9",
    "-1",
    "1e",
    "1e-3",
    "1e100",
    "1e3k",
    "1.5e0",
    "0.0001k",
    "8 MB",
    "1,000",
    31 * "9",
]

BYTES = {
    "80GiB": 80 * 2**30,
    "24GB": 24 * 10**9,
    "24 GB": 24 * 10**9,
    "1.5TiB": 3 * 2**39,
    "512": 512,
    "512B": 512,
    "1kB": 1_000,
    "1KB": 1_000,
    "1KiB": 1_024,
    "1PiB": 2**50,
}
NO_BYTES = {
    "80G": (
        "'80G' is not an amount of memory such as 80GiB or 24GB; write GiB (powers of 1,024) or GB "
        "(powers of 1,000)"
    ),
    "80Gi": (
        "'80Gi' is not an amount of memory such as 80GiB or 24GB; write GiB (powers of 1,024) or GB "
        "(powers of 1,000)"
    ),
    "80gib": "'80gib' is not an amount of memory such as 80GiB or 24GB; write GiB",
    "much": "'much' is not an amount of memory such as 80GiB or 24GB",
    "-1GB": "'-1GB' is not an amount of memory such as 80GiB or 24GB",
    "0.5B": "'0.5B' is not an amount of memory such as 80GiB or 24GB; it must come to a whole number",
}


@pytest.mark.parametrize(("text", "value"), COUNTS.items())
def test_a_count(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", NO_COUNTS, ids=lambda text: text[:8])
def test_what_is_no_count(text):
    with pytest.raises(ArchError, match="is not a whole number such as 4096"):
        parse_count(text)


@pytest.mark.parametrize(("text", "value"), QUANTITIES.items())
def test_a_quantity(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", NO_QUANTITIES, ids=lambda text: text[:8])
def test_what_is_no_quantity(text):
    with pytest.raises(ArchError, match="is not a whole number such as 4096, 8k, 1"):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "value"), BYTES.items())
def test_an_amount_of_memory(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(("text", "answer"), NO_BYTES.items())
def test_what_is_no_amount_of_memory(text, answer):
    with pytest.raises(ArchError) as caught:
        parse_bytes(text)
    assert str(caught.value) == answer


def test_a_dtype():
    assert parse_dtype("bf16") == "bf16"
    with pytest.raises(ArchError, match="unknown dtype 'bf17'; one of fp64, "):
        parse_dtype("bf17")
