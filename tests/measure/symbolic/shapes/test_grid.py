"""Grids: what --vary accepts, and the order in which candidates are numbered."""

from itertools import product

import pytest

from archcli.errors import ArchError
from archcli.wings.shapes.symbolic.shapes.grid import MOST, Axis, CandidateGrid, check_size, parse_axis, spans
from table import every_row


@every_row(
    ("text", "name", "values"),
    [
        ("d_model=1024:8192:128", "d_model", [*range(1024, 8193, 128)]),
        ("d_model = 8 : 21 : 4", "d_model", [8, 12, 16, 20]),
        ("n_layers=16:18", "n_layers", [16, 17, 18]),
        ("n_layers=16:16", "n_layers", [16]),
        ("vocab_size=32k,32K", "vocab_size", [32_000, 32_768]),
        ("groups.0.n_layers=4", "groups.0.n_layers", [4]),
        ("attention.kind=gqa, mqa", "attention.kind", ["gqa", "mqa"]),
        ("eps=1e-5,0.5", "eps", ["1e-5", "0.5"]),
    ],
)
def test_an_axis(text, name, values):
    axis = parse_axis(text)
    assert (axis.name, list(axis.values)) == (name, values)
    assert axis.is_numeric is all(isinstance(value, int) for value in values)


@every_row(
    ("text", "words"),
    [
        ("d_model", "NAME=LOW:HIGH:STEP or NAME=A,B,C is needed"),
        ("=3", "NAME=LOW:HIGH:STEP or NAME=A,B,C is needed"),
        ("d_model=", "NAME=LOW:HIGH:STEP or NAME=A,B,C is needed"),
        ("d_model=8:4", "8 to 4 is an empty range; write 4:8"),
        ("d_model=0:4", "a size is a whole number above 0"),
        ("d_model=1:4:0", "a step is a whole number above 0"),
        ("d_model=1:4:2:3", "a range has two or three numbers"),
        ("d_model=8..4096", "'8..4096' is no range; write 8:4096"),
        ("d_model=8 ... 4096", "'8 ... 4096' is no range; write 8:4096"),
        ("d_model=8…64:8", "'8…64:8' is no range; write 8:64:8"),
        ("d_model=8..64..8", "'8..64..8' is no range; write 8:64:8"),
        ("d_model=1:x", "'x' is not a whole number"),
        ("d_model=-4:4", "'-4' is not a whole number"),
        ("d_model=1.5:4", "'1.5' is not a whole number"),
        ("d_model=1:1e25", "larger than any size"),
        ("d_model=4,1e25", "larger than any size"),
        ("d_model=4,,5", "a value is missing between commas"),
        ("d_model=4,5,4", "4 stands there twice"),
    ],
)
def test_what_is_no_axis(text, words):
    with pytest.raises(ArchError) as refused:
        parse_axis(text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"--vary '{text}'")


def test_the_last_axis_changes_fastest_whatever_the_chunks():
    axes = (Axis("a", range(3, 8, 2)), Axis("b", (9, 4)), Axis("c", (1,)), Axis("d", range(5, 9)))
    grid = CandidateGrid(axes)
    expected = [*product(*(axis.values for axis in axes))]
    assert grid.size == 3 * 2 * 1 * 4
    for chunk in (1, 5, 24, 100):
        rows = []
        for start, stop in spans(grid.size, chunk):
            arrays = grid.chunk(start, stop)
            rows += zip(*(arrays[axis.name].tolist() for axis in axes), strict=True)
        assert rows == expected


def test_a_candidate_of_a_huge_grid_is_found_by_its_number():
    grid = CandidateGrid((Axis("a", range(1, 10**6)), Axis("b", range(1, 10**5))))
    arrays = grid.chunk(10**10 + 7, 10**10 + 8)
    a, b = divmod(10**10 + 7, 10**5 - 1)
    assert (arrays["a"].tolist(), arrays["b"].tolist()) == ([a + 1], [b + 1])


def test_more_candidates_than_a_day_counts_are_refused():
    check_size(MOST)
    with pytest.raises(ArchError, match=r"1e\+12 candidates are more than a day counts"):
        check_size(10**12)
