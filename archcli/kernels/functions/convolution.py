"""Convolutions of torch, and their backward in one kernel."""

from __future__ import annotations

from typing import Any

from archcli.kernels.launching import StatedWork, launch, launch_many, needs_grad
from archcli.kernels.tensor import in_torch


@in_torch
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Any:
    """x [B, C, T] with taps [out, C / groups, K]: [B, out, T']."""
    length = (x.shape[2] + 2 * padding - dilation * (weight.shape[2] - 1) - 1) // stride + 1
    shape = (x.shape[0], weight.shape[0], length)
    flops = 2 * x.shape[0] * length * weight.numel()

    def backward(g: Any) -> tuple[Any, ...]:
        wanted = [t for t in (x, weight, bias) if needs_grad(t)]
        work = StatedWork(flops * sum(t is not bias for t in wanted) + (g.numel() if needs_grad(bias) else 0))
        outputs = [(t.shape, t.dtype) for t in wanted]
        made = iter(launch_many("convolution_backward", [g, x, weight], outputs, work=work))
        return tuple(next(made) if needs_grad(t) else None for t in (x, weight, bias))

    work = StatedWork(flops if bias is None else flops + shape[0] * shape[1] * length)
    return launch("convolution", [x, weight, bias], shape, x.dtype, backward=backward, work=work)
