"""Conditions that make no sense: each mistake is one clear line at its place."""

import numpy as np
import pytest

from archcli.errors import ArchError
from archcli.query.condition import parse_condition
from archcli.query.vocabulary import ColumnNames
from query.test_condition import Words
from table import every_row

MIDDLE = "write 100..150 or 7e9±1%"
EXAMPLES = "write a comparison or a range: params>10B, series=llama, params in 7e9±1%"
BETWEEN = "write one of + - * / // @ between numbers and names"
MISSING = "write one there, or an expression in parentheses"
BY_ITSELF = "write each condition by itself: all must hold"
SIGNS = "an expression has numbers, names, + - * / // @ and ( )"
FIGURES_ALONE = "expressions read figures of models and nothing else"
DATE = "write a year, or a year and a month from 01 to 12: 2024-07"
# text: what the carets are below, the message and how to mend it
WRONG = {
    "": ("", "'' is not a condition", EXAMPLES),
    "x": ("x", "'x' is not a condition", EXAMPLES),
    "x>": ("x>", "'x>' is not a condition", EXAMPLES),
    "x >< 3": ("x >< 3", "'x >< 3' is not a condition", EXAMPLES),
    "x in": ("x in", "'x in' is not a condition", EXAMPLES),
    "x in 3": ("3", "'3' is no range", MIDDLE),
    "x in 1..": ("1..", "'1..' is no range", MIDDLE),
    "x in 1..2..3": ("1..2..3", "'1..2..3' is no range", MIDDLE),
    "x in 1±2±3": ("1±2±3", "'1±2±3' is no range", MIDDLE),
    "x in 3..1": ("3..1", "no number is in this range", "write the smaller end first"),
    "x in 3±-1": ("3±-1", "no number is in this range", "write the smaller end first"),
    "x in 1e9±5e6%": ("5e6%", "'5e6%' is more than 100%", "write 5e6 for an amount, or a share such as 1%"),
    "x in 3 +- 101 %": (
        "101 %",
        "'101 %' is more than 100%",
        "write 101 for an amount, or a share such as 1%",
    ),
    "x in 1..2 < 3": ("<", "a range is compared with one value", "write two conditions"),
    "x~3": ("~", "x is no text", "use one of = != < <= > >="),
    "x*2~3": ("~", "x*2 is no text", "use one of = != < <= > >="),
    "x > 3 y": ("y", "no operator before 'y'", BETWEEN),
    "x > 3 and y < 2": ("and", "no operator before 'and'", BY_ITSELF),
    "x > (3": ("(", "this parenthesis is not closed", "add )"),
    "x! > 3": ("!", 'unexpected "!"', SIGNS),
    "__import__('os') > 3": ("__import__", "'__import__' is no name of a figure", FIGURES_ALONE),
    "x.__class__ = 3": ("x.__class__", "'x.__class__' is no name of a figure", FIGURES_ALONE),
    "open('x') > 3": ("'", 'unexpected "\'"', SIGNS),
    "`ls` > 3": ("`", 'unexpected "`"', SIGNS),
    "lambda: 0 > 3": (":", 'unexpected ":"', SIGNS),
    "attention.kind > gqa": (">", "attention.kind is text", "use =, != or ~"),
    "attention.kind * 2 > 3": (
        "attention.kind",
        "attention.kind is text, and no number",
        "it is compared alone, on the left: series=llama",
    ),
    "3 < tied": (
        "tied",
        "tied is true or false, and no number",
        "it is compared alone, on the left: tied=yes",
    ),
    "released - 1 > 3": (
        "released",
        "released is a date, and no number",
        "it is compared alone, on the left: released>=2024",
    ),
    "tied=maybe": ("maybe", "'maybe' is neither true nor false", ""),
    "tied>no": (">", "tied is true or false", "use = or !="),
    "released>2024-13": ("2024-13", "'2024-13' is not a date", DATE),
    "released in 2024±1": ("2024", "'2024' is not a date", DATE),
    "released in 2025..2024": ("2025..2024", "no date is in this range", "write the earlier one first"),
    "kv<1K": ("1K", None, "write KiB (powers of 1,024) or kB (powers of 1,000)"),
    "kv*2 < 8B": ("8B", "'8B' may be billions or bytes", "write 8e9, or 8 for bytes"),
    "kv_bytes() < 8B": ("8B", "'8B' may be billions or bytes", "write 8e9, or 8 for bytes"),
    "took<7sec": ("7sec", "'7sec' is not a time such as 7ms, 2.5s or 1h", "units: ns, us, ms, s, min, h, d"),
    "share>half": ("half", "'half' is not a number such as 2.5 or 25%", ""),
    "(" * 51 + "x" + ")" * 51 + ">3": ("(", "more than 50 parentheses inside each other", "write it flatter"),
    "x>" + "3" * 999: ("3", "longer than 1,000 characters", "write it shorter"),
}


class Known(Words):
    """Words, of which `half` is not known."""

    def find(self, name):
        return None if name == "half" else super().find(name)


@every_row(("text", "told"), WRONG.items(), ids=[text[:20] for text in WRONG])
def test_a_mistake_is_answered_at_its_place(text, told):
    with pytest.raises(ArchError) as error:
        parse_condition(text, Known(), "--where ")
    (problem,) = error.value.problems
    below, what, hint = told
    start = problem.mark.column - 1
    assert problem.mark.text == f"--where {text}"
    assert problem.mark.text[start : start + problem.mark.width] == below
    assert problem.what == what if what else problem.what
    assert problem.hint == hint


def test_division_by_zero_names_the_expression():
    with pytest.raises(ArchError, match=r"^--where 3 < x/y: 'x/y' divides by zero"):
        parse_condition("3 < x/y", lead="--where ").holds(lambda what: np.array([1, 0]))


class Column:
    """A column by key, heading and unit."""

    def __init__(self, key, title, unit):
        self.key, self.title, self.unit = key, title, unit


COLUMNS = ColumnNames([Column("kv_bytes", "KV/token", "bytes"), Column("final_norm", "final norm", "flag")])


def test_a_column_goes_by_its_heading_as_well():
    assert parse_condition("KV/Token >= 1KiB", COLUMNS).holds({"kv_bytes": 1024}.get) is True
    assert parse_condition("1KiB <= kv/token < 2KiB", COLUMNS).names == ("kv_bytes",)
    assert parse_condition("final norm=no", COLUMNS).holds({"final_norm": False}.get) is True


@every_row(
    ("text", "told"),
    {
        "kv_byte>3": "unknown column 'kv_byte'; did you mean kv_bytes?",
        "zzz>3": "unknown column 'zzz'; known are kv_bytes, final_norm",
        "3 > kv_bytes/zzz": "unknown column 'zzz'; known are kv_bytes, final_norm",
        "kv_bytes > kv_byte": "unknown column 'kv_byte'; did you mean kv_bytes?",
        "kv_bytes(context=3)>3": "'kv_bytes' takes no settings; leave them out",
        "zzz(context=3)>3": "unknown column 'zzz'; known are kv_bytes, final_norm",
    }.items(),
)
def test_an_unknown_column_is_answered(text, told):
    with pytest.raises(ArchError) as error:
        parse_condition(text, COLUMNS)
    assert str(error.value).partition(": ")[2] == told
