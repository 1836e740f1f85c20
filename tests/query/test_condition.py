"""Conditions: which values meet them, exactly, one by one and in arrays."""

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.query.condition import parse_condition
from archcli.query.expression import Call
from archcli.query.vocabulary import FigureName, Vocabulary
from table import every_row

KV = Call("kv_bytes", (("context", "32768"),))
FIGURES = {
    "params": [6_929_999_999, 6_930_000_000, 7_070_000_000, 7_070_000_001],
    "aspect_ratio": [Fraction(299, 3), Fraction(100), Fraction(150), Fraction(451, 3)],
    "x": [0, 1, 2, 3],
    "seconds": [0.1, 0.25, 0.3, 1e9],
    KV: [2**30 - 1, 2**30, 2**30 + 1, 0],
    "big": [2**63 - 1, 2**53, 2**53 + 1, -(2**63)],
}
# condition: which of the four candidates meet it
HOLD = {
    "params in 7e9±1%": ".xx.",
    "params in 7e9+-1%": ".xx.",
    "params in 7B ± 1 %": ".xx.",
    "params in 7e9±70M": ".xx.",
    "params in 6.93B..7.07B": ".xx.",
    "params in 6.93B .. 7_070_000_001": ".xxx",
    "params in (7e9)±(70*1M)": ".xx.",
    "params/1e9 in 6.93..7.07": ".xx.",
    "aspect_ratio in 100..150": ".xx.",
    "100 <= aspect_ratio <= 150": ".xx.",
    "150>=aspect_ratio>=100": ".xx.",
    "100 < aspect_ratio <= 150": "..x.",
    "aspect_ratio in 125±20%": ".xx.",
    "aspect_ratio*3 = 299": "x...",
    "aspect_ratio = 299/3": "x...",
    "kv_bytes(context=32768) <= 1GiB": "xx.x",
    "kv_bytes( context = 32768 )/2 <= 512MiB": "xx.x",
    "x=2": "..x.",
    "x==2": "..x.",
    "x!=2": "xx.x",
    "2 != x": "xx.x",
    "x>1": "..xx",
    "1 < x": "..xx",
    "0 <= x < 2 < 3": "xx..",
    "x*2 in x+1..x*3": ".xxx",
    "x in 1..1": ".x..",
    "x - 3 >= -2": ".xxx",
    "(x + 1) * (x - 2) = 0": "..x.",
    "x in -1..+1": "xx..",
    "x in 1+-1": "xxx.",
    "x in 0..3+-1": "xxx.",
    "seconds <= 25%": "xx..",
    "seconds > 0.1": ".xxx",
    "seconds <= 250ms": "xx..",
    "seconds*2 < 600_000 µs": "xx..",
    "seconds < 1 min": "xxx.",
    "x in 2±100%": "xxxx",
    "seconds*2 in 0.2..0.5": "xx..",
    "12/(x - 4) > -5": "xx..",  # -3, -4, -6 and -12
    "12/(x - 4) = -6": "..x.",
    "big > 9007199254740992": "x.x.",
    "big*2 > 18014398509481984": "x.x.",
    "big = 9223372036854775807": "x...",
    "big < -9.2e18": "...x",
    "big < 1e30": "xxxx",
    "-big > 9223372036854775807": "...x",
}


def marks(answers):
    return "".join("x" if answer else "." for answer in answers)


@every_row(("text", "met"), HOLD.items(), ids=HOLD)
def test_a_condition_is_met_by(text, met):
    condition = parse_condition(text)
    one_by_one = [condition.holds(lambda what, i=i: FIGURES[what][i]) for i in range(4)]
    assert all(isinstance(answer, bool) for answer in one_by_one)
    assert marks(one_by_one) == met
    together = condition.holds(lambda what: np.array(FIGURES[what]))
    assert together.dtype == bool
    assert marks(together) == met


def test_a_condition_says_what_it_reads_and_asks_once():
    condition = parse_condition(" a/b.c in f(x=1)..a*2 ")
    assert (condition.text, condition.names) == ("a/b.c in f(x=1)..a*2", ("a", "b.c"))
    assert condition.calls == (Call("f", (("x", "1"),)),)
    asked = Counter()

    def of(what):
        asked[what] += 1
        return 2

    assert condition.holds(of) is False
    assert set(asked.values()) == {1}
    assert set(asked) == {"a", "b.c", *condition.calls}


WHOLE = st.integers(-(2**62), 2**62)


@given(WHOLE, WHOLE, WHOLE, st.integers(1, 10**6))
def test_ranges_are_exact(low, high, near, part):
    low, high = sorted((low, high))
    values = np.array([low - 1, low, high, high + 1, near])
    text = f"x/{part} in {low}/{part}..{high}/{part}"
    assert parse_condition(text).holds(lambda _: values).tolist() == [low <= int(x) <= high for x in values]


@given(st.integers(1, 10**15), st.integers(0, 9999))
def test_tolerances_are_exact(middle, hundredths):
    width = Fraction(middle * hundredths, 10_000)
    low, high = -(-(middle - width) // 1), (middle + width) // 1
    condition = parse_condition(f"x in {middle}±{hundredths / 100:.2f}%")
    answers = condition.holds(lambda _: np.array([low - 1, low, high, high + 1]))
    assert answers.tolist() == [False, True, True, False]


def test_a_missing_number_meets_no_condition_but_unequal():
    for text, met in {"x>1": False, "x=1": False, "x!=1": True, "x+y>1": False, "x=none": True}.items():
        assert parse_condition(text).holds(lambda what: None if what == "x" else 5) is met
    assert parse_condition("x!=none").holds(lambda _: 5) is True
    missing = np.array([1.0, np.nan])
    assert parse_condition("x>=0").holds(lambda _: missing).tolist() == [True, False]
    assert parse_condition("x!=0").holds(lambda _: missing).tolist() == [True, True]


class Words(Vocabulary):
    """Any number, and texts and bytes by name."""

    def find(self, name):
        units = {
            "attention.kind": "text",
            "media": "text",
            "tied": "flag",
            "released": "date",
            "kv": "bytes",
            "share": "share",
            "took": "seconds",
        }
        term = super().find(name)
        return term and FigureName(name, units.get(name, ""))

    def find_call(self, call):
        return FigureName(call.name, "bytes")


RECORD = {
    "attention.kind": "gqa + Cross",
    "media": "image, video",
    "tied": True,
    "released": "2024-07",
    "kv": 8,
    "share": 0.25,
    "took": 0.007,
    KV: 8,
    "x": 1,
}
RECORD_HOLD = {
    "attention.kind=GQA": True,
    "attention.kind=gqa + cross": True,
    "attention.kind=gq": False,
    "attention.kind~gq": True,
    "attention.kind!=mla": True,
    "attention.kind=a < b in (c": False,
    "media=image": True,
    "media=image, video": True,
    "media!=video": False,
    "tied=yes": True,
    "tied!=true": False,
    "released=2024": True,
    "released in 2023..2024-07": True,
    "released in 2024-08..2025": False,
    "2023 < released < 2024-08": True,
    "2024 < released": False,
    "2024-07 <= released": True,
    "2024-07 >= released": True,
    "2024-06 >= released": False,
    "kv=8B": True,
    "kv in 8..1KiB": True,
    "kv_bytes(context=32768) = 8": True,
    "kv*1KiB=8KiB": True,
    "share>=25%": True,
    "share<0.25": False,
    "share in 0.2x..30%": True,
    "took<=7 ms": True,
    "took<0.007": False,
    "6999µs < took < 1h": True,
    "released=none": False,
    "attention.kind!=none": True,
}


@every_row(("text", "met"), RECORD_HOLD.items(), ids=RECORD_HOLD)
def test_texts_flags_dates_and_bytes_are_compared(text, met):
    assert parse_condition(text, Words()).holds(RECORD.__getitem__) is met


SIGNS = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "!=": ne}
TERMS = st.sampled_from(["x", "y", "x/3", "2*y - x", "x//7", "5", "1K"])
CHAINS = st.lists(st.tuples(st.sampled_from([*SIGNS]), TERMS), min_size=1, max_size=4)


def in_python(term, x, y):
    """The value of a term by Python's Fractions."""
    return {"x": x, "y": y, "x/3": Fraction(x, 3), "2*y - x": 2 * y - x, "x//7": x // 7, "5": 5, "1K": 1024}[
        term
    ]


@given(
    TERMS,
    CHAINS,
    st.lists(st.tuples(WHOLE, WHOLE) | st.tuples(st.integers(-9, 9), WHOLE), min_size=1, max_size=4),
)
def test_any_chain_holds_where_all_its_comparisons_do(first, chain, candidates):
    text = first + "".join(f" {sign} {term}" for sign, term in chain)
    terms = [first, *(term for _, term in chain)]
    expected = []
    for x, y in candidates:
        values = [in_python(term, x, y) for term in terms]
        pairs = zip([sign for sign, _ in chain], values, values[1:], strict=False)
        expected.append(all(SIGNS[sign](a, b) for sign, a, b in pairs))
    condition = parse_condition(text)
    figures = {"x": np.array([x for x, _ in candidates]), "y": np.array([y for _, y in candidates])}
    answers = np.broadcast_to(condition.holds(figures.__getitem__), len(candidates))
    assert answers.tolist() == expected


@pytest.mark.long
@given(st.text("xkv1.( )@*/+-=<>!~,'_%eGB±in\n", max_size=30), st.sampled_from([Vocabulary(), Words()]))
def test_any_text_is_a_condition_or_one_clear_line(text, vocabulary):
    with suppress(ArchError):
        parse_condition(text, vocabulary).holds({"x": 3, "kv": 8}.get)
