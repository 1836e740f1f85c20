"""Numbers of the page are written as archcli's tables write them."""

from pathlib import Path
from random import Random

import pytest
import quickjs

import archcli
from archcli.errors import ArchError
from archcli.render.values import exact, short
from archcli.units import parse_count

SCRIPT = Path(archcli.__file__).parent / "wings/drawing/report" / "text.js"


@pytest.fixture(scope="module")
def engine():
    context = quickjs.Context()
    context.eval(SCRIPT.read_text())
    return context


def numbers():
    """Small numbers, numbers of every size, and those beside which the short form changes."""
    chance = Random(1)  # noqa: S311
    yield from range(1, 12)
    yield from (chance.randrange(10**digits) + 1 for digits in range(1, 25) for _ in range(20))
    for base in (1000, 1024):
        for power in (1, 2, 3, 4, 5):
            for figure in (9.995, 99.95, 999.5, 1, 1.125, 12.25, 122.5, 0.9995):
                number = int(figure * base**power)
                yield from (number - 1, number, number + 1)


@pytest.mark.parametrize("unit", ["count", "bytes", "flops"])
def test_short_forms_are_those_of_tables(engine, unit):
    wrong = []
    for number in numbers():
        ours = short(number, unit) or exact(number, unit)
        theirs = engine.eval(f"written({number}n, '{unit}')")
        if theirs != ours:
            wrong.append((number, theirs, ours))
    assert wrong == []


@pytest.mark.parametrize("number", [0, 1, 999, 1000, 131_072, 2**53 + 1, 10**24 + 7])
def test_exact_forms_have_all_digits(engine, number):
    assert engine.eval(f"exact({number}n)") == f"{number:,}"
    assert engine.eval(f"written({number}n, 'whole')") == f"{number:,}"


@pytest.mark.parametrize("text", ["4096", "131,072", "131_072", "8k", "8K", "128Ki", "1M", "70B", "1T"])
def test_a_field_takes_what_the_command_line_takes(engine, text):
    assert int(engine.eval(f"String(wholeNumber('{text}'))")) == parse_count(text.replace(",", ""))


@pytest.mark.parametrize("text", ["", "-1", "1.5x", "x", "8kk", "1e", "0x10", "1" * 31])
def test_a_field_refuses_what_is_no_whole_number(engine, text):
    assert engine.eval(f"wholeNumber('{text}')") is None
    if len(text) < 31:
        with pytest.raises(ArchError):
            assert parse_count(text) < 0
