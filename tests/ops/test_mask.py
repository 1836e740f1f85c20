"""Closed forms of masks against brute force: what `pairs` counts is what `allows` allows, token by token."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from archcli.ops import Causal, Chunked, Dilated, Fixed, Full, SlidingWindow, Strided, WindowAndGlobal

MASKS = {
    "full": lambda size: Full(),
    "causal": lambda size: Causal(),
    "window": SlidingWindow,
    "chunk": Chunked,
    "dilated": lambda size: Dilated(size, size // 3 + 1),
    "strided": Strided,
    "fixed": lambda size: Fixed(size, (size + 1) // 2),
}
lengths, sizes = st.integers(0, 40), st.integers(1, 20)


def brute(mask, new, past):
    return sum(bool(mask.allows(query, key)) for query in range(past, past + new) for key in range(past + new))


@pytest.mark.parametrize("make", MASKS.values(), ids=MASKS)
@given(new=lengths, past=lengths, size=sizes)
def test_pairs_are_counted_one_by_one(make, new, past, size):
    mask = make(size)
    assert mask.pairs(new, past, past + new) == brute(mask, new, past)


@pytest.mark.parametrize("make", MASKS.values(), ids=MASKS)
@settings(max_examples=30)
@given(new=lengths, past=lengths, size=sizes)
def test_symbols_and_arrays_count_the_same_pairs(make, new, past, size):
    many = {name: np.array([value, value + 1]) for name, value in {"new": new, "past": past, "size": size}.items()}
    names = dict(zip(many, sympy.symbols("new past size", integer=True, nonnegative=True), strict=True))
    values = dict(zip(names.values(), (new, past, size), strict=True))
    counted = make(size).pairs(new, past, past + new)
    assert int(make(many["size"]).pairs(many["new"], many["past"], many["new"] + many["past"])[0]) == counted
    assert make(names["size"]).pairs(names["new"], names["past"], names["new"] + names["past"]).subs(values) == counted


@given(new=st.integers(1, 40), reach=st.integers(0, 20), n_global=st.integers(0, 20))
def test_pairs_of_a_window_and_global_tokens_are_counted_one_by_one(new, reach, n_global):
    mask = WindowAndGlobal(reach, n_global)
    assert mask.pairs(new, 0, new) == brute(mask, new, 0)


@pytest.mark.parametrize("make", [MASKS["causal"], MASKS["window"]], ids=["causal", "window"])
@given(past=lengths, size=sizes)
def test_a_cache_keeps_what_the_next_query_sees(make, past, size):
    mask = make(size)
    assert mask.keep(past) == sum(bool(mask.allows(past, key)) for key in range(past))


@given(past=lengths, size=sizes)
def test_a_chunked_cache_keeps_at_least_what_the_next_query_sees(past, size):
    mask = Chunked(size)
    seen = sum(bool(mask.allows(past, key)) for key in range(past))
    assert seen <= mask.keep(past) == min(past, size - 1)


@pytest.mark.parametrize("make", MASKS.values(), ids=MASKS)
@given(new=st.integers(1, 20), past=lengths, size=sizes)
def test_covers_means_that_only_later_keys_are_forbidden(make, new, past, size):
    mask = make(size)
    visible = mask.keep(past) + new
    every = sum(past + i + 1 - (past + new - visible) for i in range(new)) if mask.causal else new * visible
    if mask.covers(new, visible):
        assert brute(mask, new, past) == every


def test_the_causal_triangle_has_no_floor_as_a_formula():
    n = sympy.Symbol("n", integer=True, positive=True)
    assert Causal().pairs(n, 0, n) == n * (n + 1) / 2
