"""Code that is run once for many candidates gives each what it gives that candidate alone."""

import gc
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archcli
from archcli.arith import is_one, is_whole, maximum, minimum, share_of
from archcli.wings.shapes.symbolic.candidates import branches, gathered
from archcli.wings.shapes.symbolic.symbols import sizes
from archcli.wings.shapes.symbolic.varied import CandidateRun, Varied
from table import every_row

numbers = st.one_of(st.integers(-9, 9), st.integers(-(2**62), 2**62))
columns = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6)
OPERATIONS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "minimum": minimum,
    "maximum": maximum,
}


def of_all(function, *arrays):
    """What the function gives for each candidate, in one run for all of them."""
    values = {str(i): np.array(array, dtype=np.int64) for i, array in enumerate(arrays)}
    parts = list(branches(values, len(arrays[0]), lambda sizes: function(*sizes.values())))
    return gathered(len(arrays[0]), ((part.places, part.array(part.result)) for part in parts)).tolist()


def alone(function, *row):
    try:
        return function(*row)
    except ZeroDivisionError:
        return None


def guarded(function):
    """The function with None where it divides by zero, as the caller of a run has to say."""
    return lambda *row: alone(function, *row)


def stated(value):
    """None for NaN, which stands for a figure that a candidate does not have."""
    return None if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.sample(6, whole=True)
@pytest.mark.parametrize("name", OPERATIONS)
@given(rows=columns)
def test_an_operation_on_two_columns(name, rows):
    function = guarded(OPERATIONS[name])
    found = of_all(function, *zip(*rows, strict=True))
    expected = [function(*row) for row in rows]
    assert list(map(stated, found)) == expected


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", OPERATIONS)
@given(rows=columns, constant=numbers)
def test_an_operation_on_a_column_and_a_number(name, rows, constant):
    column = [a for a, _ in rows]
    for function in (
        guarded(lambda a: OPERATIONS[name](a, constant)),
        guarded(lambda a: OPERATIONS[name](constant, a)),
    ):
        found = of_all(function, column)
        assert list(map(stated, found)) == [function(a) for a in column]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_root_of_zero_is_a_division_by_zero(sizes):
    function = guarded(lambda n: n**-0.5)
    found = of_all(function, sizes)
    assert list(map(stated, found)) == [function(n) for n in sizes]


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=5))
def test_a_product_beyond_64_bits_is_exact(sizes):
    assert of_all(lambda n: n * n * n + 1, sizes) == [n**3 + 1 for n in sizes]


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def looked_up(n):
    return {1: 10, 2: 20}.get(n, 0) + len("abcdef"[:n]) + sum(range(n))


def sorted_by_size(n):
    return sorted([n, 3, 7 - n])[1] * 10 + max(n, 4)


def as_text(n):
    return len(str(int(n)))


@every_row(
    "function",
    [
        collatz,
        looked_up,
        sorted_by_size,
        as_text,
        lambda n: n.bit_length(),
        lambda n: 1 if n == 3 else 2 if n != 4 else 5,
        lambda n: 1 if is_one(n) else 0,
        lambda n: abs(3 - n),
        lambda n: divmod(n, 4)[1] + n**3 - (-n),
        lambda n: n**-0.5,
        lambda n: round(n / 3, 1),
        lambda n: 7 if n / 4 < 1.1 else n / 4,
        lambda n: share_of(n, 0.25) if share_of(n, 0.25) == n // 4 else -1,
        lambda n: int(n * Fraction(3, 4)) + (n + Fraction(1, 2)).numerator,
        lambda n: 1 if is_whole(n) and not is_whole(n / 2) else 0,
        lambda n: 1 if n is None or n == "gqa" or n in ("a", None) else 0,
    ],
)
def test_code_that_branches(function):
    sizes = [6, 1, 3, 4, 2, 7, 4, 12]
    assert of_all(function, sizes) == [function(n) for n in sizes]


def test_words_name_the_first_candidate():
    words = {}

    def message(n):
        words[f"{n:,} of {n}"] = None
        return n

    assert of_all(message, [2048, 3, 4]) == [2048, 3, 4]
    assert list(words) == ["2,048 of 2048"]


def test_equal_sizes_are_one_number():
    runs = list(branches({"n": np.array([5, 5, 5])}, 3, lambda sizes: sizes["n"]))
    assert len(runs) == 1
    assert not isinstance(runs[0].result, Varied)
    assert runs[0].array(runs[0].result).tolist() == [5, 5, 5]


def test_a_decision_that_all_take_alike_needs_one_run():
    runs = list(branches({"n": np.array([5, 6, 7])}, 3, lambda sizes: 1 if sizes["n"] > 4 else 2))
    assert [run.places.tolist() for run in runs] == [[0, 1, 2]]
    runs = list(branches({"n": np.array([5, 3, 7])}, 3, lambda sizes: 1 if sizes["n"] > 4 else 2))
    assert [(run.places.tolist(), run.result) for run in runs] == [([0, 2], 1), ([1], 2)]


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "gemma-2-9b", "mixtral-8x7b", "deepseek-v3", "mamba2-2.7b", "qwen3-next-80b-a3b"]
)
def test_every_size_of_a_model_is_swept_in_few_runs(name, monkeypatch):
    """A hundred values of a size are a run each where code asks for the hash or the text of a size."""
    runs = []
    monkeypatch.setattr(
        "archcli.wings.shapes.symbolic.candidates.CandidateRun",
        lambda length: runs.append(length) or CandidateRun(length),
    )
    for path in [path for path, _, value in sizes(archcli.load(name)) if value is not None][::3]:
        runs.clear()
        archcli.sweep(name, vary=f"{path}=2:200:2", show=["matmul_flops", "cache_bytes"], minimize="params")
        assert len(runs) < 6, path


@pytest.mark.long
def test_numbers_of_a_run_are_freed_when_it_ends():
    """Without waiting for the garbage collector: a sweep of many chunks would hold on to all of them."""
    gc.collect()
    gc.disable()
    try:
        assert of_all(lambda n: (n * n + n) * n, [2, 3, 4]) == [12, 36, 80]
        # type(), not isinstance(): objects of torch warn where their `__class__` is read
        assert [thing for thing in gc.get_objects() if issubclass(type(thing), Varied)] == []
    finally:
        gc.enable()
