"""Strides of results: the order of axes in memory that torch chooses for a kernel's output."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, same_layout


def like_inputs(shape: Sizes, inputs: Sequence[ShapeTensor]) -> Sizes | None:
    """Strides of an element-wise result of these inputs; None for the order of the axes."""
    if all(x.shape == shape and x.is_contiguous() for x in inputs):
        return None
    alike = all(x.shape == shape for x in inputs)
    if alike and all(map(_fills_channels_last, inputs)):
        return channels_last(shape)
    laid = [_broadcast_strides(x, shape) for x in inputs]
    if alike and laid.count(laid[0]) == len(laid) and is_dense(inputs[0]):
        return laid[0]
    return ordered_strides(shape, laid)


def _broadcast_strides(x: ShapeTensor, shape: Sizes) -> Sizes:
    """Strides of x broadcast to a shape: 0 along axes that x lacks."""
    lead = len(shape) - len(x.shape)
    axes = zip(x.shape, x.strides, shape[lead:], strict=True)
    return (0,) * lead + tuple([0 if size == 1 != wide else stride for size, stride, wide in axes])


def is_dense(x: ShapeTensor) -> bool:
    """Whether its elements fill their memory without gaps or overlaps, in any order of the axes."""
    step = 1
    for stride, size in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def dense_strides(shape: Sizes, strides: Sizes) -> Sizes:
    """Strides without gaps in the same order of axes."""
    return ordered_strides(shape, [strides])


def preserved_strides(x: ShapeTensor) -> Sizes:
    """Strides of a copy: those of x, without its gaps."""
    return x.strides if is_dense(x) else dense_strides(x.shape, x.strides)


def ordered_strides(shape: Sizes, operands: Sequence[Sizes]) -> Sizes:
    """Strides without gaps in the order of axes that torch's TensorIterator finds (reorder_dimensions).

    Axes are sorted by the strides of the first operand that tells two apart, from the last axis on.
    """
    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            further_in = _compared(shape, operands, order[before], order[at])
            if further_in > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif further_in < 0:
                break
    step, dense = 1, [0] * len(shape)
    for axis in order:
        dense[axis] = step
        step *= max(shape[axis], 1)
    return tuple(dense)


def _compared(shape: Sizes, operands: Sequence[Sizes], inner: int, outer: int) -> int:
    """A number above 0 if the outer axis lies further in, below 0 if not, 0 if no operand tells."""
    for strides in operands:
        a, b = strides[inner], strides[outer]
        if a == 0 or b == 0:
            continue
        if a != b:
            return a - b
        if shape[inner] > shape[outer]:
            return 1
    return 0


IMAGES = 4
"""Axes of a tensor that torch may lay out as images, with the second axis innermost."""


def channels_last(shape: Sizes) -> Sizes:
    """Strides with the second axis innermost."""
    _, channels, height, width = shape
    return (channels * height * width, 1, channels * width, channels)


def is_channels_last(x: ShapeTensor) -> bool:
    """Whether torch sees the second axis as innermost (is_channels_last_strides_2d)."""
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


def _fills_channels_last(x: ShapeTensor) -> bool:
    """Whether it has no gaps and its second axis innermost; axes of length 1 count for neither."""
    return x.ndim == IMAGES and same_layout(x.shape, x.strides, channels_last(x.shape))
