"""How values read."""

import pytest

from archcli.errors import sanitize, shorten
from archcli.render.values import exact, short
from table import every_row


@every_row(
    ("value", "unit", "said", "brief"),
    [
        (8_030_261_248, "count", "8,030,261,248", "8.03B"),
        (405_853_388_800, "count", "405,853,388,800", "406B"),
        (999_499, "count", "999,499", "999K"),
        (999_500, "count", "999,500", "1.00M"),
        (9_999, "count", "9,999", ""),
        (10_000, "count", "10,000", "10.0K"),
        (10**18, "count", "1,000,000,000,000,000,000", "1.00e+06T"),
        (0, "count", "0", ""),
        (8_030_261_248, "number", "8,030,261,248", ""),
        (32_938_104_193_024, "flops", "32,938,104,193,024", "32.9 TFLOP"),
        (500, "flops", "500", "500 FLOP"),
        (1_500.5, "flops", "1,500.5", "1.50 KFLOP"),
        (9_995, "macs", "9,995", "10.0 KMAC"),
        (0, "flops", "0", ""),
        (16 << 30, "bytes", "17,179,869,184", "16.0 GiB"),
        (1_050_673_152, "bytes", "1,050,673,152", "0.98 GiB"),
        (1023, "bytes", "1,023", "1.00 KiB"),
        (999, "bytes", "999", "999 B"),
        (0.702, "share", "70.2%", "70.2%"),
        (4.0, "ratio", "4x", "4x"),
        (0.28125, "ratio", "0.281x", "0.281x"),
        (12_345.6, "ratio", "12,346x", "12,346x"),
        (0.00123, "seconds", "1.23 ms", "1.23 ms"),
        (2.5, "seconds", "2.5 s", "2.5 s"),
        (4e-8, "seconds", "40 ns", "40 ns"),
        (True, "flag", "✓", ""),
        (False, "flag", "✗", ""),
        (None, "count", "-", ""),
        ("gqa", "text", "gqa", ""),
    ],
)
def test_a_value_reads_as(value, unit, said, brief):
    assert (exact(value, unit), short(value, unit)) == (said, brief)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain é 模", "plain é 模"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines", "two\\nlines"),
        ("right\u202eleft", "right\\u202eleft"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_does_not_print_is_spelled_out(text, said):
    assert sanitize(text) == said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" * 40, "a" * 40),
        ("a" * 41, "a" * 39 + "…"),
        ("a" * 36 + "\x1b", "a" * 36 + r"\x1b"),
        ("a" * 37 + "\x1b", "a" * 37 + r"\x" + "…"),
        ("\x1b" * 1000, (r"\x1b" * 10)[:39] + "…"),
    ],
)
def test_a_shortened_text_keeps_its_bound_with_what_is_spelled_out(text, shown):
    assert shorten(text) == shown
    assert len(shown) <= 40
