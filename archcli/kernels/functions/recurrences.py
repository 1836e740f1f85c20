"""Functions of torch that recurrences need: weighted means, small exponentials, maxima, running sums."""

from __future__ import annotations

from typing import Any

from archcli.kernels.dtypes import INT64, REAL, DType
from archcli.kernels.functions.reductions import reduced_shape
from archcli.kernels.launching import elementwise, launch, needs_grad, sum_to
from archcli.kernels.layouts import preserved_strides
from archcli.kernels.tensor import in_torch, method, operation


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
    """1 - x, as torch's C++ computes it: a tensor of ones, from which x is subtracted in place."""
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
    """The largest along an axis, without a gradient."""
    return launch("amax", [x], reduced_shape(x, [dim % x.ndim], keepdim=keepdim), x.dtype)
