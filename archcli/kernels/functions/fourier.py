"""Fourier transforms of torch, and the way from real numbers to complex ones and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.kernels.dtypes import COMPLEX, FP32, NAMED
from archcli.kernels.functions.pieces import among_zeros
from archcli.kernels.launching import StatedWork, elementwise, launch, view
from archcli.kernels.tensor import Sizes, in_torch, method, row_major

COMPLEX64 = NAMED["complex64"]
PAIR = 2
"""Real numbers of a complex one, side by side in memory."""


@in_torch
def fftn(x: Any, *, dim: Sequence[int]) -> Any:
    """The transform of real numbers along several axes: one kernel, after a copy as complex numbers."""
    if x.dtype != FP32:
        raise NotImplementedError(f"kernels of torch.fft.fftn of {x.dtype.name} are not known")
    copied = elementwise("_to_copy", x, dtype=COMPLEX64, backward=lambda g: (real_part(g),))
    return _transformed(copied, [axis % x.ndim for axis in dim])


def _transformed(x: Any, axes: Sequence[int]) -> Any:
    """The transform; its gradient is one in the other direction."""
    from archcli.ops.fourier import transform_flops  # of few models

    work = StatedWork(transform_flops(x.numel(), [x.shape[axis] for axis in axes]))
    return launch("_fft_c2c", [x], x.shape, x.dtype, backward=lambda g: (_transformed(g, axes),), work=work)


@method
def real_part(x: Any) -> Any:
    """A view of every second number in memory; backward each has 0 beside it."""
    if x.dtype.kind != COMPLEX:
        return x

    def backward(g: Any) -> tuple[Any]:
        pairs: Sizes = (*x.shape, PAIR)
        return (view(among_zeros("select_backward", g, pairs), x.shape, row_major(x.shape), dtype=x.dtype),)

    strides = tuple([PAIR * stride for stride in x.strides])
    return view(x, x.shape, strides, backward=backward, dtype=FP32)
