"""Expressions: what they come to, worked out with Fractions beside."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.query.expression import Call, parse_expression
from table import every_row

FIGURES = {
    "d_model": 4096,
    "layers.0.attention.n_heads": 32,
    "aspect_ratio": 128.5,
    Call("kv_bytes", (("context", "32768"),)): 4 * 2**30,
    Call("time", (("device", "8xh100-sxm"), ("phase", "decode"))): 0.25,
}
VALUES = {
    "4096": 4096,
    "131_072": 131072,
    "8k": 8000,
    "8K": 8192,
    "7e9": 7 * 10**9,
    "70B": 70 * 10**9,
    "1.5M": 1_500_000,
    "1GiB": 2**30,
    "24GB": 24 * 10**9,
    "2 KiB": 2048,
    "25%": Fraction(1, 4),
    "2.5x": Fraction(5, 2),
    "1e-5": Fraction(1, 10**5),
    "7/2": Fraction(7, 2),
    "7//2": 3,
    "-7//2": -4,
    "7//-2": -4,
    "2+3*4": 14,
    "(2+3)*4": 20,
    "20-3-4": 13,
    "64/4/2": 8,
    "2--3": 5,
    "-(2+3)": -5,
    "- -3": 3,
    "7+-1": 6,
    "8/3*d_model": Fraction(8 * 4096, 3),
    "8/3*d_model@128": 10880,  # 10922.67 is 85.33 times 128
    "8/3*d_model@256": 11008,  # 42.67 times 256
    "192@128": 256,  # a half goes up
    "63@128": 128,  # at least one multiple
    "-500@128": 128,
    "(100@64)*3": 128 * 3,
    "100@(32+32)": 128,
    "d_model/layers.0.attention.n_heads": 128,
    "kv_bytes(context=32768)/1GiB": 4,
    "kv_bytes( context = 32768 ) / 2GiB": 2,
    "time(phase=decode, device=8xh100-sxm)*2": 0.5,
    "aspect_ratio//1": 128.0,
    "9e18*9e18": 81 * 10**36,
}


@every_row(("text", "value"), VALUES.items(), ids=VALUES)
def test_an_expression_comes_to(text, value):
    assert parse_expression(text).value(FIGURES.__getitem__) == value


def test_an_expression_says_what_it_reads():
    read = parse_expression(" b.c + a*a - time(phase=decode, device=x y) / b.c ")
    assert read.text == "b.c + a*a - time(phase=decode, device=x y) / b.c"
    assert read.names == ("b.c", "a")
    assert read.calls == (Call("time", (("device", "x y"), ("phase", "decode"))),)
    assert str(read.calls[0]) == "time(device=x y, phase=decode)"
    assert parse_expression("f()").calls == (Call("f", ()),)


NUMBERS = {
    "1": 1,
    "64": 64,
    "3": 3,
    "0": 0,
    "2.5": Fraction(5, 2),
    "8k": 8000,
    "1Ki": 1024,
    "12%": Fraction(3, 25),
    "7e9": 7 * 10**9,
}
LEAF = st.sampled_from(["a", "b", "c", "f(x=1)", *NUMBERS])
TREES = st.recursive(
    LEAF,
    lambda tree: (
        st.tuples(st.sampled_from(["+", "-", "*", "/", "//"]), tree, tree)
        | st.tuples(st.just("negative"), tree)
        | st.tuples(st.just("@"), tree, st.sampled_from(["1", "64", "a"]))
    ),
    max_leaves=12,
)
RANK = {"@": 0, "+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "negative": 3}


def printed(tree, above=0):
    """The text of a tree with no more parentheses than it needs."""
    if isinstance(tree, str):
        return tree
    sign, *parts = tree
    rank = RANK[sign]
    if sign == "negative":
        text = f"-{printed(parts[0], rank)}"
    else:
        # what is right of a minus or a division needs parentheses of its own, and so does all around @
        left, right = printed(parts[0], rank + (sign == "@")), printed(parts[1], rank + 1)
        text = f"{left}{sign if rank == 2 else f' {sign} '}{right}"
    return f"({text})" if rank < above or (sign == "@" and above) else text


def worked_out(tree, figures):
    """The value of a tree by Python's Fractions."""
    if isinstance(tree, str):
        return Fraction(NUMBERS[tree] if tree in NUMBERS else figures[tree])
    sign, *parts = tree
    x, *rest = [worked_out(part, figures) for part in parts]
    if sign == "negative":
        return -x
    y = rest[0]
    if sign == "@":
        assert y >= 1
        return max(floor(x / y + Fraction(1, 2)), 1) * y
    if sign == "//":
        return Fraction(x // y)
    return x / y if sign == "/" else {"+": x + y, "-": x - y, "*": x * y}[sign]


def named(figures):
    """The figures as an expression asks for them."""
    return lambda what: figures["f(x=1)" if what == Call("f", (("x", "1"),)) else what]


CANDIDATES = st.fixed_dictionaries(
    {
        "a": st.lists(st.integers(1, 2**40), min_size=3, max_size=3),
        "b": st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3),
        "c": st.lists(st.integers(0, 3), min_size=3, max_size=3),
        "f(x=1)": st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=3),
    }
)


@given(TREES, CANDIDATES)
def test_any_expression_is_what_fractions_give(tree, candidates):
    expression = parse_expression(printed(tree))
    expected = []
    for i in range(3):
        figures = {name: values[i] for name, values in candidates.items()}
        try:
            expected.append(worked_out(tree, figures))
        except ZeroDivisionError:
            with pytest.raises(ArchError, match="divides by zero"):
                expression.value(named(figures))
            with pytest.raises(ArchError, match="divides by zero"):
                expression.value(named({name: np.array(values) for name, values in candidates.items()}))
            return
        value = expression.value(named(figures))
        assert value == expected[-1]
        assert isinstance(value, int if expected[-1].denominator == 1 else Fraction)
    arrays = {name: np.array(values) for name, values in candidates.items()}
    exact = expression.exact(named(arrays))
    over, under = (np.broadcast_to(part, 3).tolist() for part in (exact.over, exact.under))
    assert [Fraction(*pair) for pair in zip(over, under, strict=True)] == expected
    assert min(under) > 0
    value = np.broadcast_to(expression.value(named(arrays)), 3)
    if all(each.denominator == 1 for each in expected):
        assert value.tolist() == expected
        assert value.dtype == (np.int64 if max(map(abs, expected)) < 2**63 else object)
    elif expression.names or expression.calls:
        assert value.tolist() == pytest.approx([float(each) for each in expected], rel=1e-15)


WHOLE = np.array([1024, 4096, 5120])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64, object])
def test_arrays_of_any_whole_kind_are_exact(kind):
    value = parse_expression("8/3*d_model@128").value(lambda _: WHOLE.astype(kind))
    assert value.dtype == np.int64
    assert value.tolist() == [21 * 128, 85 * 128, 107 * 128]


def test_arrays_of_fractions_are_exact():
    halves = np.array([Fraction(1, 2), Fraction(3, 2), Fraction(2**70, 3)], dtype=object)
    assert parse_expression("6*x").value(lambda _: halves).tolist() == [3, 9, 2**71]


def test_beyond_64_bits_nothing_wraps_around():
    big = np.array([2**62, 3])
    assert parse_expression("4*x").value(lambda _: big).tolist() == [2**64, 12]
    assert parse_expression("4*x/8").value(lambda _: big).tolist() == [2**61, 1.5]
    assert parse_expression("x+x").value(lambda _: np.array([2**63 - 1])).tolist() == [2**64 - 2]
    least = np.array([-(2**63)])
    assert parse_expression("-x").value(lambda _: least).tolist() == [2**63]
    assert parse_expression("x//-1").value(lambda _: least).tolist() == [2**63]
    assert parse_expression("x*0*1e20").value(lambda _: big).tolist() == [0, 0]
    assert parse_expression("x/1e20").value(lambda _: big).tolist() == [2**62 / 10**20, 3 / 10**20]


def test_no_candidate_is_no_mistake():
    assert parse_expression("(2*x+1)/3@8").value(lambda _: np.array([], dtype=np.int64)).size == 0


def test_a_missing_real_figure_stays_missing():
    value = parse_expression("2*x/8").value(lambda _: np.array([1.0, np.nan]))
    assert value[0] == 0.25
    assert np.isnan(value[1])
