"""torch's functions that create, slice, split and join tensors: `zeros`, `narrow`, `split`, `cat`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from archcli.arith import is_whole, prod
from archcli.wings.serving.launches.dtypes import FP32, INT64, DType, of_number, promoted
from archcli.wings.serving.launches.functions.recurrences import LoopPieces, counted, occurrences, steps_run
from archcli.wings.serving.launches.functions.views import (
    contiguous_copy,
    expand,
    flatten,
    sizes_of,
    unsqueeze,
)
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import broadcast, launch, record, view
from archcli.wings.serving.launches.layouts import channels_last, is_channels_last, preserved_strides
from archcli.wings.serving.launches.log import current
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, in_torch, method, operation


@method
def repeat_interleave(x: Any, repeats: int, dim: int) -> Any:
    dim %= x.ndim
    wide = unsqueeze(x, dim + 1)
    wide = expand(wide, (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]))
    return flatten(contiguous_copy(wide), dim, dim + 1)


@in_torch
def pad(x: Any, widths: Sequence[int], mode: str = "constant", value: float = 0) -> Any:
    shape = list(x.shape)
    # torch pads from the last axis on: (left, right) of axis -1, then those of axis -2
    for i in range(len(widths) // 2):
        shape[-1 - i] += widths[2 * i] + widths[2 * i + 1]
    # the gradient is cut by negative widths
    back = [-w for w in widths]
    return launch("constant_pad_nd", [x], tuple(shape), x.dtype, backward=lambda g: (pad(g, back),))


def _created(name: str, shape: Sequence[Any], dtype: DType | None) -> Any:
    """Launch a kernel that fills a new tensor, fp32 by default as in torch."""
    return launch(name, [], tuple(sizes_of(shape)), dtype or FP32)


@in_torch
def zeros(*shape: Any, dtype: DType | None = None, device: Any = None) -> Any:
    return _created("zeros", shape, dtype)


@in_torch
def ones(*shape: Any, dtype: DType | None = None, device: Any = None) -> Any:
    return _created("ones", shape, dtype)


@in_torch
def full(shape: Sizes, value: float, dtype: DType | None = None, device: Any = None) -> Any:
    return _created("full", (shape,), dtype or of_number(value))


@in_torch
def arange(*bounds: Any, dtype: DType | None = None, device: Any = None) -> Any:
    # as torch: one bound is the stop, two are start and stop
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1)}.get(len(bounds), bounds)
    return _created("arange", (max(0, -((start - stop) // step)),), dtype or INT64)


@in_torch
def tensor(value: Any, dtype: DType | None = None, device: Any = None) -> Any:
    shape = (len(value),) if isinstance(value, list | tuple) else ()
    number = value[0] if shape else value
    return ShapeTensor(shape, dtype or of_number(number))


def _like(name: str) -> None:
    """Define torch's `zeros_like`, `ones_like` or `full_like`."""

    def function(x: Any, *_: Any, dtype: DType | None = None, **__: Any) -> Any:
        return launch(name, [], x.shape, dtype or x.dtype, strides=preserved_strides(x))

    function.__name__ = name
    in_torch(function)


for _name in ("zeros_like", "ones_like", "full_like"):
    _like(_name)


@method
def new_zeros(x: Any, *shape: Any, dtype: DType | None = None) -> Any:
    return _created("new_zeros", shape, dtype or x.dtype)


@method
def new_full(x: Any, shape: Sizes, value: float, dtype: DType | None = None) -> Any:
    return _created("new_full", (shape,), dtype or x.dtype)


@in_torch
def promote_types(a: DType, b: DType) -> DType:
    return promoted(a, b)


@in_torch
def broadcast_tensors(*xs: Any) -> Any:
    shape = broadcast(*[x.shape for x in xs])
    return tuple(expand(x, shape) for x in xs)


def among_zeros(name: str, g: Any, shape: Sizes) -> Any:
    """The gradient of a whole tensor: `g` in the part that was sliced, zeros elsewhere."""
    # the kernel fills the whole with zeros, then copies g into its part
    work = StatedWork(written=prod(shape) * g.itemsize + g.bytes)
    return launch(name, [g], shape, g.dtype, work=work)


def narrow_by(x: Any, dim: int, start: int, stop: int, step: int = 1) -> Any:
    """x[start:stop:step] along an axis: a view; its backward writes the gradient into zeros."""
    # rounded up without a float: 0:5:2 has 3 elements
    length = max(0, -(-(stop - start) // step))
    return view(
        x,
        (*x.shape[:dim], length, *x.shape[dim + 1 :]),
        tuple(s * step if i == dim else s for i, s in enumerate(x.strides)),
        start * x.strides[dim],
        backward=lambda g: (among_zeros("slice_backward", g, x.shape),),
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
        backward=lambda g: (among_zeros("select_backward", g, x.shape),),
    )


@method
def getitem(x: Any, index: Any) -> Any:
    indices = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(i, ShapeTensor | list) for i in indices):
        return x.index(indices)
    if Ellipsis in indices:
        at = indices.index(Ellipsis)
        # None adds an axis and indexes none; the Ellipsis itself is one of the indices, hence + 1
        missing = x.ndim - sum(i is not None for i in indices) + 1
        indices[at : at + 1] = [slice(None)] * missing
    dim = 0
    for i in indices:
        if i is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(i, slice):
            x, dim = _sliced(x, dim, i), dim + 1
        else:
            x = select(x, dim, i)
    return x


def _sliced(x: Any, dim: int, by: slice) -> Any:
    """x[by] along an axis; x itself where the slice is all of it, `x[:]`."""
    size, step = x.shape[dim], 1 if by.step is None else by.step
    # not `by.indices`, which wants one number of a size that stands for those of many candidates
    start, stop = (_place(at, size, default) for at, default in ((by.start, 0), (by.stop, size)))
    whole = not by.start and stop == size and step == 1
    return x if whole else narrow_by(x, dim, start, stop, step)


def _place(at: int | None, size: int, default: int) -> int:
    """The index of a slice's bound: -1 is size - 1, and 9 of 4 is 4."""
    if at is None:
        return default
    return max(at + size, 0) if at < 0 else min(at, size)


@operation
def split(x: Any, sizes: Any, dim: int = 0) -> Any:
    """Views of consecutive pieces: a tuple for a list of sizes, `LoopPieces` for one size."""
    dim %= x.ndim
    # inductor does not move a launch whose result is split
    x.storage.is_split = True
    if is_whole(sizes):
        length = x.shape[dim]
        cuts = [(i * sizes, min(sizes, length - i * sizes), n) for i, n in steps_run(-(-length // sizes))]
        return LoopPieces(_pieces(x, dim, cuts))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(_pieces(x, dim, [(start, size, 1) for start, size in zip(starts, sizes, strict=True)]))


@operation
def chunk(x: Any, n: int, dim: int = 0) -> Any:
    return split(x, -(-x.shape[dim] // n), dim)


def _pieces(x: Any, dim: int, cuts: list[tuple[int, int, int]]) -> list[Any]:
    """A view of each cut; one kernel joins their gradients.

    A cut is (start, length, times): of 100 rows in a loop the cut (2, 1, 96) stands for rows 2 to 97.
    """
    pieces = [
        _piece(x, (*x.shape[:dim], length, *x.shape[dim + 1 :]), x.strides, start * x.strides[dim], times)
        for start, length, times in cuts
    ]
    times = [n for _, _, n in cuts]
    record(pieces, [x], lambda *gradients: (_joined(_whole(gradients, pieces), dim, times),))
    return pieces


def _piece(x: Any, shape: Sizes, strides: Sizes, offset: int, times: int) -> ShapeTensor:
    """A view of x that stands for `times` alike ones."""
    piece = ShapeTensor(shape, x.dtype, strides, x.storage, x.offset + offset)
    piece.repeats = times * current().repeats
    return piece


def _whole(gradients: Sequence[Any], pieces: Sequence[ShapeTensor]) -> list[Any]:
    """The gradients of pieces; zeros for a piece that has none."""
    dtype = next(g.dtype for g in gradients if g is not None)
    return [_zeros(x, dtype) if g is None else g for g, x in zip(gradients, pieces, strict=True)]


def _zeros(x: ShapeTensor, dtype: DType) -> Any:
    with counted(x.repeats):
        return launch("zeros", [], x.shape, dtype)


@operation
def unbind(x: Any, dim: int = 0) -> Any:
    """Views at each index of an axis, to be looped over."""
    return LoopPieces(without_axis(x, dim % x.ndim, steps_run(x.shape[dim])))


def without_axis(x: Any, dim: int, steps: list[tuple[int, int]]) -> list[Any]:
    """A view at each step along an axis; one kernel stacks their gradients.

    A step is (index, times): of 100 in a loop (2, 96) stands for 2 to 97.
    """
    shape, strides = (*x.shape[:dim], *x.shape[dim + 1 :]), (*x.strides[:dim], *x.strides[dim + 1 :])
    views = [_piece(x, shape, strides, i * x.strides[dim], times) for i, times in steps]
    times = [n for _, n in steps]
    record(views, [x], lambda *gradients: (_stacked(_whole(gradients, views), dim, times),))
    return views


@in_torch
def cat(xs: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate tensors along an axis."""
    xs = list(xs)
    return _joined(xs, dim % xs[0].ndim, occurrences(xs))


def _joined(xs: list[Any], dim: int, times: list[int]) -> Any:
    """Concatenate tensors along an axis, each as often as `times` says."""
    dtype = xs[0].dtype
    for x in xs[1:]:
        dtype = promoted(dtype, x.dtype)
    sizes = [x.shape[dim] for x in xs]
    ends = list(accumulate(size * n for size, n in zip(sizes, times, strict=True)))
    shape = (*xs[0].shape[:dim], ends[-1], *xs[0].shape[dim + 1 :])

    def part(g: Any, x: Any, end: int, n: int) -> Any:
        with counted(n * current().repeats):
            return narrow_by(g, dim, end - x.shape[dim], end).to(x.dtype)

    def backward(g: Any) -> tuple[Any, ...]:
        parts = zip(xs, ends, times, strict=True)
        return tuple([part(g, x, end, n) if x.requires_grad else None for x, end, n in parts])

    strides = channels_last(shape) if all(map(is_channels_last, xs)) else None
    return launch("cat", xs, shape, dtype, strides=strides, backward=backward, work=_read(xs, times))


def _read(xs: list[Any], times: list[int]) -> StatedWork:
    """Bytes read, where x stands for several tensors of a loop."""
    return StatedWork(read=sum(x.bytes * n for x, n in zip(xs, times, strict=True)))


@in_torch
def stack(xs: Sequence[Any], dim: int = 0) -> Any:
    """Stack tensors along a new axis."""
    xs = list(xs)
    return _stacked(xs, dim % (xs[0].ndim + 1), occurrences(xs))


def _stacked(xs: list[Any], dim: int, times: list[int]) -> Any:
    """Stack tensors along a new axis, each as often as `times` says."""
    shape = (*xs[0].shape[:dim], sum(times), *xs[0].shape[dim:])
    starts = [0, *accumulate(times)]

    def part(g: Any, start: int, n: int) -> Any:
        with counted(n * current().repeats):
            return select(g, dim, start)

    def backward(g: Any) -> tuple[Any, ...]:
        return tuple([part(g, start, n) for start, n in zip(starts, times, strict=False)])

    return launch("stack", xs, shape, xs[0].dtype, backward=backward, work=_read(xs, times))
