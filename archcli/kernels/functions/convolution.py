"""Convolutions of torch, and their backward in one kernel."""

from __future__ import annotations

from typing import Any

from archcli.kernels.launching import StatedWork, launch, launch_gradients, needs_grad
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
        products = flops * (needs_grad(x) + needs_grad(weight))
        work = StatedWork(products + (g.numel() if needs_grad(bias) else 0))
        return launch_gradients("convolution_backward", [g, x, weight], (x, weight, bias), work=work)

    work = StatedWork(flops if bias is None else flops + shape[0] * shape[1] * length)
    return launch("convolution", [x, weight, bias], shape, x.dtype, backward=backward, work=work)
