"""Amounts as people write them."""

import pytest

from archcli.errors import ArchError
from archcli.units import (
    bytes_note,
    parse_bytes,
    parse_count,
    parse_decimal,
    parse_dtype,
    parse_quotient,
    parse_seconds,
    tokens_note,
)
from table import every_row

COUNTS = {
    "0": 0,
    "4096": 4096,
    " 7 ": 7,
    "131_072": 131_072,
    "8k": 8_000,
    "8K": 8 * 1024,
    "128Ki": 128 * 1024,
    "1Mi": 1024**2,
    "1.5k": 1_500,
    "0.5K": 512,
    "007": 7,
    "1M": 1_000_000,
    "1.5M": 1_500_000,
    "70B": 70 * 10**9,
    "70G": 70 * 10**9,
    "1.8T": 1_800 * 10**9,
    "8e9": 8 * 10**9,
    "1e15": 10**15,
    "1.5e03": 1_500,
    "1.25E+2": 125,
}
NO_COUNTS = [
    "",
    "k",
    "B",
    "e9",
    "-1",
    "+1",
    "1.5",
    "1.0005k",
    "0.0001k",
    "1e",
    "1e-3",
    "1e99",
    "1e100",
    "1e3k",
    "1.5e0",
    "1,000",
    "8 MB",
    "8 kk",
    "8m",
    "_1",
    "1__0",
    "٣",
    "0x10",
    "nan",
    "inf",
    31 * "9",
    5000 * "9",
]

BYTES = {
    "80GiB": 80 * 2**30,
    "80gib": 80 * 2**30,
    "80GIB": 80 * 2**30,
    "80Gi": 80 * 2**30,
    "24GB": 24 * 10**9,
    "24gb": 24 * 10**9,
    "24 GB": 24 * 10**9,
    "80G": 80 * 10**9,
    "80g": 80 * 10**9,
    "1.5TiB": 3 * 2**39,
    "512": 512,
    "512B": 512,
    "1e15": 10**15,
    "1.5e9": 1_500_000_000,
    "1kB": 1_000,
    "1KB": 1_000,
    "1KiB": 1_024,
    "1PiB": 2**50,
    # a part of a byte is left out
    "18.78GiB": 1878 * 2**30 // 100,
    "1.0009kB": 1_000,
    "0.5B": 0,
}
NO_BYTES = {
    "80K": "'80K' is not an amount of memory such as 80GiB, 24GB or 8e9; write KiB (powers of 1,024) or kB "
    "(powers of 1,000)",
    "much": "'much' is not an amount of memory such as 80GiB, 24GB or 8e9",
    "-1GB": "'-1GB' is not an amount of memory such as 80GiB, 24GB or 8e9",
    "1e9GB": "'1e9GB' is not an amount of memory such as 80GiB, 24GB or 8e9",
}


@every_row(("text", "value"), COUNTS.items())
def test_a_count(text, value):
    assert parse_count(text) == value


@every_row("text", NO_COUNTS, ids=lambda text: text[:8])
def test_what_is_no_count(text):
    with pytest.raises(ArchError, match="is not a whole number such as 4096"):
        parse_count(text)


@every_row(("text", "value"), BYTES.items())
def test_an_amount_of_memory(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(("text", "answer"), NO_BYTES.items())
def test_what_is_no_amount_of_memory(text, answer):
    with pytest.raises(ArchError) as caught:
        parse_bytes(text)
    assert str(caught.value) == answer


NOTES = {
    "128k": "128k is 128,000 tokens; 128Ki is 131,072",
    "1M": "1M is 1,000,000 tokens; 1Mi is 1,048,576",
    "100k": "",
    "128K": "",
    "128Ki": "",
    "4096": "",
    "1.5k": "",
}


@every_row(("text", "note"), NOTES.items())
def test_a_length_that_the_field_reads_otherwise_is_noted(text, note):
    assert tokens_note(text) == note


def test_a_bare_g_is_noted():
    assert bytes_note("80G") == "80G is 80GB, 80,000,000,000 bytes; 80GiB is 85,899,345,920"
    assert [bytes_note(text) for text in ("80GB", "80GiB", "80", "80Gi")] == [""] * 4


@pytest.mark.parametrize("name", ["bf16", "BF16", "Float8_E4M3FN", " fp32 "])
def test_a_dtype_in_any_case(name):
    assert parse_dtype(name) == name.strip().lower()


def test_an_unknown_dtype():
    with pytest.raises(ArchError, match="unknown dtype 'bf17'; one of fp64, "):
        parse_dtype("bf17")


DECIMALS = {
    "0": (0, 1),
    "2.5": (5, 2),
    "25%": (1, 4),
    "12.5 %": (1, 8),
    "2.5x": (5, 2),
    "1e-5": (1, 100_000),
    "1.5e3": (1500, 1),
    "1e-1%": (1, 1000),
    "1_000.50": (2001, 2),
}
NO_DECIMALS = [
    "",
    "half",
    "-1",
    "1e99",
    "1e-99",
    "2.5y",
    "1,5",
    ".5",
    "5.",
    "٣",
    31 * "9",
    5000 * "9",
    "1%%",
    "8k",
]


@every_row(("text", "parts"), DECIMALS.items(), ids=DECIMALS)
def test_a_decimal_is_exact(text, parts):
    assert parse_decimal(text) == parse_quotient(text) == parts


@every_row("text", NO_DECIMALS, ids=[text[:9] for text in NO_DECIMALS])
def test_no_decimal_is_answered(text):
    with pytest.raises(ArchError, match=r"is not a number such as 2\.5 or 25%$"):
        parse_decimal(text)


QUOTIENTS = {
    "8k": 8000,
    "8K": 8192,
    "1.5M": 1_500_000,
    "8B": 8 * 10**9,
    "1GiB": 2**30,
    "1 kB": 1000,
    "24gb": 24 * 10**9,
}


@every_row(("text", "number"), QUOTIENTS.items(), ids=QUOTIENTS)
def test_a_number_of_an_expression_may_be_a_count_or_an_amount_of_memory(text, number):
    assert parse_quotient(text) == (number, 1)


@every_row("text", ["", "8q", "GiB", "1e99", "1.0001k", "8e3k", "x"])
def test_what_is_no_number_of_an_expression_is_answered(text):
    with pytest.raises(ArchError, match="is no"):
        parse_quotient(text)


TIMES = {
    "7ms": (7, 1000),
    "2.5 ms": (1, 400),
    "250us": (1, 4000),
    "250 µs": (1, 4000),
    "250\u03bcs": (1, 4000),
    "3ns": (3, 10**9),
    "1e-3s": (1, 1000),
    "1.5 h": (5400, 1),
    "2min": (120, 1),
    "3d": (3 * 24 * 60 * 60, 1),
}


def test_a_time_has_a_unit_or_is_seconds():
    assert {text: parse_seconds(text) for text in TIMES} == TIMES
    assert {text: parse_quotient(text) for text in TIMES} == TIMES
    assert parse_seconds("0.5") == (1, 2)


@every_row("text", ["", "ms", "7Ms", "7sec", "7m", "7 x", "25%", "-1s", "1e99s", "1_ms"])
def test_no_time_is_answered(text):
    with pytest.raises(ArchError, match=r"is not a (time such as 7ms, 2\.5s or 1h|number such as)"):
        parse_seconds(text)
