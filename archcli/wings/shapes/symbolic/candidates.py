"""Run ordinary code once for the sizes of thousands of candidates of a sweep.

At a branch on a size the run continues with the candidates that take the same branch as the first one; the
others run again. So the code for one model serves all candidates, branches included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from archcli.arith import Number
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.varied import EXACT_FLOAT, CandidateRun, Varied, VariedInt

T = TypeVar("T")
CHUNK = 32_768
"""Candidates of a chunk: enough for numpy to pay off, few enough for the CPU's cache."""


class Branch(NamedTuple):
    """The result of a run, for the candidates that took the same branches to its end.

    `places` [M] are their indices. Numbers of `result` hold N candidates, of whom `active` are these.
    """

    places: Any
    run: CandidateRun
    result: Any

    def array(self, number: Number) -> Any:
        """A number of the result as an array [M]: int64, float64, or Python's ints beyond 64 bits."""
        np = required("numpy")
        if isinstance(number, Varied):
            return number.array[self.run.active]
        if number is None:
            return np.full(len(self.places), np.nan)
        whole = isinstance(number, int) and not isinstance(number, bool)
        wide = whole and not -(2**63) <= number < 2**63
        return np.full(len(self.places), number, dtype=object if wide else np.int64 if whole else np.float64)


def branches(
    values: Mapping[str, Any], length: int, compute: Callable[[Mapping[str, Number]], Any]
) -> Iterator[Branch]:
    """Run `compute` on arrays [N] by name until every candidate has a result.

    Each run takes the branches of its first candidate; its result holds for the candidates of this branch
    alone.
    """
    np = required("numpy")
    waiting = np.arange(length)
    # arithmetic continues for candidates that have left the run: their overflows are of no interest
    with np.errstate(all="ignore"):
        while len(waiting):
            run = CandidateRun(len(waiting))
            # the first run takes the arrays as they are, without a copy
            whole = len(waiting) == length
            numbers = {
                name: _number(run, array if whole else array[waiting]) for name, array in values.items()
            }
            result = compute(numbers)
            # break the cycle run -> cached numbers -> run: only the garbage collector would free it
            run.known.clear()
            yield Branch(waiting[run.active], run, result)
            waiting = waiting[~run.active]


def _number(run: CandidateRun, array: Any) -> Number:
    """An int64 array [N] as one number: a plain int where all are equal."""
    low, high = int(array.min()), int(array.max())
    # a plain int decides branches for all candidates, and costs no arithmetic on arrays
    return low if low == high else VariedInt(run, array, low, high)


def gathered(length: int, parts: Iterable[tuple[Any, Any]]) -> Any:
    """Join the arrays [M] of several branches to one array [N].

    Integers of one branch and floats of another become Python objects if a float would round an integer.
    """
    np = required("numpy")
    pairs = list(parts)
    if len(pairs) == 1:
        return pairs[0][1]
    dtype = np.result_type(np.int64, *[array.dtype for _, array in pairs])
    rounded = dtype == np.float64 and any(_beyond_floats(array) for _, array in pairs)
    whole = np.empty(length, dtype=object if rounded else dtype)
    for places, array in pairs:
        whole[places] = array.astype(object) if rounded else array
    return whole


def _beyond_floats(array: Any) -> bool:
    """Whether an array has an integer that a float would round."""
    if array.dtype.kind != "i" or not array.size:
        return False
    return max(-int(array.min()), int(array.max())) > EXACT_FLOAT
