"""torch's functions that view a tensor in another shape, or copy it: `view`, `reshape`, `expand`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.arith import prod
from archcli.wings.serving.launches.launching import launch, sum_to, view
from archcli.wings.serving.launches.layouts import preserved_strides
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, method, operation, row_major


def sizes_of(sizes: Sequence[Any]) -> list[int]:
    """Sizes given one by one, or as one tuple."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        return list(sizes[0])
    return list(sizes)


def _inferred(x: ShapeTensor, sizes: Sequence[Any]) -> Sizes:
    """The shape with -1 replaced by what is left."""
    sizes = sizes_of(sizes)
    if -1 in sizes:
        rest = prod([n for n in sizes if n != -1])
        sizes[sizes.index(-1)] = x.numel() // rest if rest else 0
    return tuple(sizes)


def view_strides(x: ShapeTensor, shape: Sizes) -> Sizes | None:
    """Strides of the same memory in another shape; None where it must be copied."""
    if x.numel() == 0:
        return row_major(shape)
    strides: list[int] = []
    runs = _contiguous_runs(x)
    at = len(shape) - 1
    for size, stride in reversed(runs):
        filled = 1
        while at >= 0 and (filled < size or shape[at] == 1):
            strides.append(stride * filled)
            filled *= shape[at]
            at -= 1
        if filled != size:
            return None
    while at >= 0:
        strides.append(1)
        at -= 1
    return tuple(reversed(strides))


def _contiguous_runs(x: ShapeTensor) -> list[tuple[int, int]]:
    """Axes joined where they lie side by side: the size and the innermost stride of each run."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(x.shape, x.strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs or [(1, 1)]


@method
def view_(x: Any, *sizes: Any) -> Any:
    shape = _inferred(x, sizes)
    strides = view_strides(x, shape)
    if strides is None and x.numel() != prod(shape):
        strides = row_major(shape)  # sizes of a sweep that do not fit together, as heads that do not divide
    if strides is None:
        raise ValueError(f"no view of {x.shape} with strides {x.strides} is {shape}")
    return _in_shape(x, shape, strides)


def _in_shape(x: Any, shape: Sizes, strides: Sizes) -> Any:
    return view(x, shape, strides, backward=lambda g: (g.reshape(x.shape),))


@operation
def reshape(x: Any, *sizes: Any) -> Any:
    shape = _inferred(x, sizes)
    if shape == x.shape:
        return x
    strides = view_strides(x, shape)
    return view_(contiguous_copy(x), shape) if strides is None else _in_shape(x, shape, strides)


def contiguous_copy(x: ShapeTensor) -> Any:
    """A copy in the order of the axes."""
    return launch("clone", [x], x.shape, x.dtype, backward=lambda g: (g,))


@method
def contiguous(x: Any, **_: Any) -> Any:
    return x if x.is_contiguous() else contiguous_copy(x)


@operation
def clone(x: Any, *, memory_format: Any = None) -> Any:
    strides = None if memory_format == "contiguous" else preserved_strides(x)
    return launch("clone", [x], x.shape, x.dtype, strides=strides, backward=lambda g: (g,))


@operation
def detach(x: Any) -> Any:
    return view(x, x.shape, x.strides)


@method
def view_as(x: Any, like: Any) -> Any:
    return view_(x, like.shape)


@operation
def flatten(x: Any, start: int = 0, end: int = -1) -> Any:
    start, end = start % x.ndim, end % x.ndim
    if start == end:
        return x
    return reshape(x, (*x.shape[:start], prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@operation
def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    dim %= x.ndim
    known = prod([n for n in sizes if n != -1])
    sizes = tuple(x.shape[dim] // known if n == -1 else n for n in sizes)
    return view_(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@operation
def transpose(x: Any, a: int, b: int) -> Any:
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return permute(x, order)


@method
def t(x: Any) -> Any:
    return transpose(x, 0, 1) if x.ndim == 2 else x


@operation
def permute(x: Any, *dims: Any) -> Any:
    shape, strides = x.shape, x.strides
    order = [d % len(shape) for d in sizes_of(dims)]
    return view(
        x,
        tuple([shape[i] for i in order]),
        tuple([strides[i] for i in order]),
        backward=lambda g: (g.permute([order.index(i) for i in range(len(order))]),),
    )


@operation
def unsqueeze(x: Any, dim: int) -> Any:
    dim %= x.ndim + 1
    step = x.shape[dim] * x.strides[dim] if dim < x.ndim else 1
    return view(
        x,
        (*x.shape[:dim], 1, *x.shape[dim:]),
        (*x.strides[:dim], step, *x.strides[dim:]),
        backward=lambda g: (g.squeeze(dim),),
    )


@operation
def squeeze(x: Any, dim: int) -> Any:
    dim %= x.ndim
    if x.shape[dim] != 1:
        return view(x, x.shape, x.strides, backward=lambda g: (g,))
    return view(
        x,
        (*x.shape[:dim], *x.shape[dim + 1 :]),
        (*x.strides[:dim], *x.strides[dim + 1 :]),
        backward=lambda g: (g.unsqueeze(dim),),
    )


@method
def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows along an axis, which overlap in memory: their elements as a last axis."""
    dim %= x.ndim
    windows = (x.shape[dim] - size) // step + 1

    def backward(g: Any) -> tuple[Any]:
        return (launch("unfold_backward", [g], x.shape, g.dtype),)

    return view(
        x,
        (*x.shape[:dim], windows, *x.shape[dim + 1 :], size),
        (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim]),
        backward=backward,
    )


@method
def expand(x: Any, *sizes: Any) -> Any:
    wanted = sizes_of(sizes)
    lead = len(wanted) - x.ndim
    shape = tuple(
        x.shape[i - lead] if n == -1 or (i >= lead and x.shape[i - lead] == n) else n
        for i, n in enumerate(wanted)
    )
    strides = tuple(
        x.strides[i - lead] if i >= lead and (x.shape[i - lead] == n) else 0 for i, n in enumerate(shape)
    )
    return view(x, shape, strides, backward=lambda g: (sum_to(g, x.shape),))


@method
def expand_as(x: Any, like: Any) -> Any:
    return expand(x, like.shape)
