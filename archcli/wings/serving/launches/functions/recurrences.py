"""torch's functions for recurrences, and loops in which one step stands for many.

A loop over n pieces of a tensor runs five of them: the first two, one for all in the middle, and the last
two. The ends differ: a state begins without a gradient and ends unread, and the last piece may be shorter.
Launches of the middle step, and of its backward, count n - 4 times, also in nested loops. An operation that
joins the pieces, such as `cat`, has all n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from archcli.wings.serving.launches.dtypes import INT64, REAL, DType
from archcli.wings.serving.launches.functions.reductions import reduced_shape
from archcli.wings.serving.launches.launching import elementwise, launch, needs_grad, sum_to
from archcli.wings.serving.launches.layouts import preserved_strides
from archcli.wings.serving.launches.log import current
from archcli.wings.serving.launches.tensor import ShapeTensor, in_torch, method, operation


@in_torch
def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight (end - start) for a tensor of weights."""

    def backward(g: Any) -> tuple[Any, ...]:
        return (
            sum_to(g * _less_than_one(weight), start.shape) if needs_grad(start) else None,
            sum_to(g * weight, end.shape) if needs_grad(end) else None,
            sum_to(g * (end - start), weight.shape) if needs_grad(weight) else None,
        )

    return elementwise("lerp", start, end, weight, backward=backward)


def _less_than_one(x: Any) -> Any:
    """1 - x with torch's launches (C++): fill a tensor with ones, then subtract x in place."""
    ones = launch("fill", [], x.shape, x.dtype)
    return elementwise("sub", ones, x)


@operation
def expm1(x: Any) -> Any:
    """exp(x) - 1."""
    y = elementwise("expm1", x, backward=lambda g: (g * (y + 1),))
    return y


@operation
def maximum(a: Any, b: Any) -> Any:
    """The larger of two, element by element; where they are equal each gets half of the gradient."""

    def part(g: Any, x: Any, smaller: Any) -> Any:
        if not needs_grad(x):
            return None
        halved = elementwise("where", a.eq(b), g / 2, g, dtype=g.dtype)
        return sum_to(elementwise("masked_fill", halved, smaller(), dtype=g.dtype), x.shape)

    def backward(g: Any) -> tuple[Any, Any]:
        return part(g, a, lambda: a.lt(b)), part(g, b, lambda: a.gt(b))

    return elementwise("maximum", a, b, backward=backward)


@operation
def cumsum(x: Any, dim: int, dtype: DType | None = None) -> Any:
    """Running sums along an axis; backward they run from the end."""

    def backward(g: Any) -> tuple[Any]:
        sums = g if g.numel() <= 1 or g.shape[dim] == 1 else _flipped(_flipped(g).cumsum(dim))
        return (sums.to(x.dtype),)

    dtype = dtype or (x.dtype if x.dtype.kind >= REAL else INT64)
    return launch("cumsum", [x], x.shape, dtype, backward=backward)


def _flipped(x: Any) -> Any:
    return launch("flip", [x], x.shape, x.dtype, strides=preserved_strides(x))


@method
def amax(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The maximum along an axis, without a gradient."""
    return launch("amax", [x], reduced_shape(x, [dim % x.ndim], keepdim=keepdim), x.dtype)


ENDS = 2
"""Steps at either end of a loop that stand for themselves alone."""


def steps_run(n: int) -> list[tuple[int, int]]:
    """(index, times) of the n pieces that a loop runs: of 100 (0, 1), (1, 1), (2, 96), (98, 1), (99, 1)."""
    # comparisons, not range(n): in a sweep n holds the numbers of many candidates
    for few in range(2 * ENDS + 2):
        if n == few:
            return [(i, 1) for i in range(few)]
    last = [(n - ENDS + i, 1) for i in range(ENDS)]
    return [*((i, 1) for i in range(ENDS)), (ENDS, n - 2 * ENDS), *last]


@contextmanager
def counted(repeats: int) -> Iterator[None]:
    """Count each launch within the block `repeats` times."""
    log = current()
    before, log.repeats = log.repeats, repeats
    try:
        yield
    finally:
        log.repeats = before


class LoopPieces(tuple[Any, ...]):
    """The pieces of a tensor, over which the code of an operation loops: `for piece in x.split(16): …`.

    Of 100 pieces the loop sees five (`steps_run`). Launches in the body of the third count 96 times. The
    iterator sets this, as the same code of an operation also runs with torch.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        for piece in super().__iter__():
            # in effect until the loop asks for the next piece, or ends
            with counted(piece.repeats):
                yield piece


def occurrences(xs: Sequence[ShapeTensor]) -> list[int]:
    """The number of pieces that each tensor stands for, when they are joined after their loop."""
    now = current().repeats
    return [max(1, x.repeats // now) for x in xs]
