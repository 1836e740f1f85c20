"""Functions of torch that take a tensor apart, or join several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.kernels.dtypes import promoted
from archcli.kernels.functions.views import unsqueeze
from archcli.kernels.launching import launch, record, view
from archcli.kernels.tensor import METHODS, ShapeTensor, Sizes, in_torch, method, operation


def _filled(name: str, g: Any, x: ShapeTensor) -> Any:
    """The gradient of x where its part has g, zeros elsewhere."""
    return launch(name, [g], x.shape, g.dtype)


def narrow_by(x: Any, dim: int, start: int, stop: int, step: int = 1) -> Any:
    """x[start:stop:step] along an axis: a view, whose backward writes into zeros."""
    length = max(0, -(-(stop - start) // step))
    if length == x.shape[dim] and step == 1:
        return view(x, x.shape, x.strides, backward=lambda g: (g,))
    return view(
        x,
        (*x.shape[:dim], length, *x.shape[dim + 1 :]),
        tuple(s * step if i == dim else s for i, s in enumerate(x.strides)),
        start * x.strides[dim],
        backward=lambda g: (_filled("slice_backward", g, x),),
    )


@operation
def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return narrow_by(x, dim % x.ndim, start, start + length)


@operation
def select(x: Any, dim: int, index: int) -> Any:
    dim %= x.ndim
    return view(
        x,
        (*x.shape[:dim], *x.shape[dim + 1 :]),
        (*x.strides[:dim], *x.strides[dim + 1 :]),
        (index % x.shape[dim]) * x.strides[dim],
        backward=lambda g: (_filled("select_backward", g, x),),
    )


@method
def getitem(x: Any, index: Any) -> Any:
    given = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(i, ShapeTensor | list) for i in given):
        return METHODS["index"](x, given)
    if Ellipsis in given:
        at = given.index(Ellipsis)
        missing = x.ndim - sum(i is not None for i in given) + 1
        given[at : at + 1] = [slice(None)] * missing
    dim = 0
    for i in given:
        if i is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(i, slice):
            x, dim = _sliced(x, dim, i), dim + 1
        else:
            x = select(x, dim, i)
    return x


def _sliced(x: Any, dim: int, by: slice) -> Any:
    if by == slice(None):
        return x
    start, stop, step = by.indices(x.shape[dim])
    return narrow_by(x, dim, start, stop, step)


@operation
def split(x: Any, sizes: Any, dim: int = 0) -> Any:
    dim %= x.ndim
    if isinstance(sizes, int):
        whole, more = divmod(x.shape[dim], sizes)
        sizes = [sizes] * whole + ([more] if more else [])
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return _pieces(x, dim, list(zip(starts, sizes, strict=True)))


@operation
def chunk(x: Any, n: int, dim: int = 0) -> Any:
    return split(x, -(-x.shape[dim] // n), dim)


def _pieces(x: Any, dim: int, cuts: list[tuple[int, int]]) -> tuple[Any, ...]:
    """Views of consecutive pieces, whose backward is one concatenation, with zeros for those without."""
    made = [
        ShapeTensor(
            (*x.shape[:dim], length, *x.shape[dim + 1 :]),
            x.dtype,
            x.strides,
            x.storage,
            x.offset + start * x.strides[dim],
        )
        for start, length in cuts
    ]

    def backward(*gradients: Any) -> tuple[Any]:
        dtype = next(g.dtype for g in gradients if g is not None)
        whole = [
            launch("zeros", [], piece.shape, dtype) if g is None else g
            for g, piece in zip(gradients, made, strict=True)
        ]
        return (cat(whole, dim),)

    record(made, [x], backward)
    return tuple(made)


@operation
def unbind(x: Any, dim: int = 0) -> Any:
    dim %= x.ndim
    shape, strides = (*x.shape[:dim], *x.shape[dim + 1 :]), (*x.strides[:dim], *x.strides[dim + 1 :])
    made = [
        ShapeTensor(shape, x.dtype, strides, x.storage, x.offset + i * x.strides[dim])
        for i in range(x.shape[dim])
    ]

    def backward(*gradients: Any) -> tuple[Any]:
        dtype = next(g.dtype for g in gradients if g is not None)
        whole = [launch("zeros", [], shape, dtype) if g is None else g for g in gradients]
        return (stack(whole, dim),)

    record(made, [x], backward)
    return tuple(made)


@in_torch
def cat(xs: Sequence[Any], dim: int = 0) -> Any:
    xs = list(xs)
    dim %= xs[0].ndim
    dtype = xs[0].dtype
    for x in xs[1:]:
        dtype = promoted(dtype, x.dtype)
    sizes = [x.shape[dim] for x in xs]
    shape = (*xs[0].shape[:dim], sum(sizes), *xs[0].shape[dim + 1 :])

    def backward(g: Any) -> tuple[Any, ...]:
        return tuple(
            narrow_by(g, dim, sum(sizes[:i]), sum(sizes[: i + 1])).to(x.dtype) if x.requires_grad else None
            for i, x in enumerate(xs)
        )

    strides = _channels_last(shape) if all(map(_is_channels_last, xs)) else None
    return launch("cat", xs, shape, dtype, strides=strides, backward=backward)


IMAGES = 4
"""Axes of a tensor that torch may take for images, and lays out with the second axis last."""


def _channels_last(shape: Sizes) -> Sizes:
    """Strides with the second axis innermost."""
    _, channels, height, width = shape
    return (channels * height * width, 1, channels * width, channels)


def _is_channels_last(x: ShapeTensor) -> bool:
    """Whether torch sees the second axis as the one that lies innermost (is_channels_last_strides_2d)."""
    if x.ndim != IMAGES or x.strides[1] == 0:
        return False
    least = 0
    for axis in (1, 3, 2, 0):
        if x.shape[axis] == 0 or x.strides[axis] < least:
            return False
        if axis == 0 and least == x.strides[1]:
            return False
        least = x.strides[axis] * x.shape[axis]
    return True


@in_torch
def stack(xs: Sequence[Any], dim: int = 0) -> Any:
    xs = list(xs)
    dim %= xs[0].ndim + 1
    shape = (*xs[0].shape[:dim], len(xs), *xs[0].shape[dim:])
    return launch("stack", xs, shape, xs[0].dtype, backward=lambda g: unbind(g, dim))
