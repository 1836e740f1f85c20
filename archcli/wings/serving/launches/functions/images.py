"""Functions of torch on images and sounds: convolutions in two dimensions, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import launch, launch_gradients, needs_grad
from archcli.wings.serving.launches.tensor import in_torch


@in_torch
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
) -> Any:
    """x [B, C, H, W] with taps [out, C / groups, h, w]: [B, out, H', W']."""
    sides = zip(x.shape[2:], weight.shape[2:], stride, padding, strict=True)
    places = [(n + 2 * pad - dilation * (taps - 1) - 1) // step + 1 for n, taps, step, pad in sides]
    shape = (x.shape[0], weight.shape[0], *places)
    flops = 2 * x.shape[0] * places[0] * places[1] * weight.numel()

    def backward(g: Any) -> tuple[Any, ...]:
        # the gradients of x and of the weight each take as many FLOPs as the forward
        products = flops * (needs_grad(x) + needs_grad(weight))
        work = StatedWork(products + (g.numel() if needs_grad(bias) else 0))
        return launch_gradients("convolution_backward", [g, x, weight], (x, weight, bias), work=work)

    # a bias is added once per element of the output
    added = 0 if bias is None else shape[0] * shape[1] * places[0] * places[1]
    return launch(
        "convolution", [x, weight, bias], shape, x.dtype, backward=backward, work=StatedWork(flops + added)
    )


@in_torch
def interpolate(
    x: Any,
    size: Sequence[int],
    mode: str = "bicubic",
    align_corners: bool = False,
    antialias: bool = False,
) -> Any:
    """x [B, C, H, W] resized to [B, C, *size]."""
    name = f"upsample_{mode}2d{'_aa' if antialias else ''}"

    def backward(g: Any) -> tuple[Any]:
        return (launch(f"_{name}_backward".replace("__", "_"), [g], x.shape, x.dtype),)

    return launch(name, [x], (*x.shape[:2], *size), x.dtype, backward=backward)
