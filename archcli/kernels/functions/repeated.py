"""Loops over pieces of a tensor: one step in the middle stands for all that are like it.

A loop over n pieces runs the first two, one for those in the middle and the last two: a state begins without
a gradient and ends unread, and the last piece may be shorter. What is launched for a step in the middle
counts n - 4 times, in loops within loops too, and so does its backward; what joins the steps has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archcli.kernels.log import current
from archcli.kernels.tensor import ShapeTensor

ENDS = 2


def steps_run(n: int) -> list[tuple[int, int]]:
    """The pieces of n that a loop runs: each one's index, and how many it stands for."""
    if n <= 2 * ENDS + 1:
        return [(i, 1) for i in range(n)]
    first, last = range(ENDS), range(n - ENDS, n)
    return [*((i, 1) for i in first), (ENDS, n - 2 * ENDS), *((i, 1) for i in last)]


class LoopPieces(tuple[Any, ...]):
    """Pieces that a loop goes over: in its body, what is launched counts as often as the piece."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        log = current()
        before = log.repeats
        for piece in super().__iter__():
            log.repeats = piece.repeats
            yield piece
        log.repeats = before


@contextmanager
def counted(repeats: int) -> Iterator[None]:
    """Count what is launched within the block this often."""
    log = current()
    before, log.repeats = log.repeats, repeats
    try:
        yield
    finally:
        log.repeats = before


def occurrences(xs: Sequence[ShapeTensor]) -> list[int]:
    """How often each tensor of a finished loop is there, of those that are joined outside of it."""
    now = current().repeats
    return [max(1, x.repeats // now) for x in xs]
