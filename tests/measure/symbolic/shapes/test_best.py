"""The best candidates of a stream: by one objective, by several, and in the order of the grid."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.wings.shapes.symbolic.shapes.search import Best

values = st.integers(0, 6)


def kept(rows, objectives, top, cuts):
    """The numbers of the candidates that are kept when they come in these pieces."""
    best, ends = Best(objectives, top), sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for start, stop in pairwise(ends):
        keys = [np.array([row[k] for row in rows[start:stop]]) for k in range(objectives)]
        best.add(keys, {"number": np.arange(start, stop)})
    return best.rows()["number"].tolist()


@pytest.mark.long
@given(st.lists(st.tuples(values), min_size=1, max_size=20), st.integers(1, 9), st.lists(st.integers(0, 20)))
def test_one_objective_sorts_and_equals_keep_their_order(rows, top, cuts):
    expected = sorted(range(len(rows)), key=lambda i: (rows[i], i))[:top]
    assert kept(rows, 1, top, cuts) == expected


@pytest.mark.long
@given(st.integers(1, 20), st.integers(1, 9), st.lists(st.integers(0, 20)))
def test_without_an_objective_the_first_are_kept(length, top, cuts):
    assert kept([()] * length, 0, top, cuts) == [*range(length)][:top]


def dominates(a, b):
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@given(
    st.lists(st.tuples(values, values, values), min_size=1, max_size=20),
    st.integers(1, 20),
    st.lists(st.integers(0, 20)),
)
def test_several_objectives_keep_what_nothing_dominates(rows, top, cuts):
    front = [i for i, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]
    expected = sorted(front, key=lambda i: (*rows[i], i))[:top]
    assert kept(rows, 3, top, cuts) == expected


def test_numbers_beyond_64_bits_are_ordered():
    best = Best(1, 2)
    best.add([np.array([2**70, 5, 2**65], dtype=object)], {"number": np.arange(3)})
    assert best.rows()["number"].tolist() == [1, 2]
