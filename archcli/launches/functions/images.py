"""Functions of torch on images and sounds: convolutions in two dimensions, resizing, group norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.launches.dtypes import INT64
from archcli.launches.kernel import StatedWork
from archcli.launches.launching import launch, launch_gradients, launch_many, needs_grad
from archcli.launches.tensor import in_torch


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
        products = flops * (needs_grad(x) + needs_grad(weight))
        work = StatedWork(products + (g.numel() if needs_grad(bias) else 0))
        return launch_gradients("convolution_backward", [g, x, weight], (x, weight, bias), work=work)

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


def _pooled(x: Any, kernel: int, stride: int, padding: int) -> tuple[int, ...]:
    """The shape of x [B, C, H, W] behind a pooling."""
    return (*x.shape[:2], *((n + 2 * padding - kernel) // stride + 1 for n in x.shape[2:]))


@in_torch
def max_pool2d(x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
    """The largest of each kernel of places of x [B, C, H, W], whose places are kept for the gradient."""

    def backward(g: Any, *_: Any) -> tuple[Any]:
        return (launch("max_pool2d_with_indices_backward", [g, x, places], x.shape, x.dtype),)

    shape = _pooled(x, kernel, stride, padding)
    pooled, places = launch_many(
        "max_pool2d_with_indices",
        [x],
        [(shape, x.dtype), (shape, INT64)],
        backward=backward,
        differentiable=1,
    )
    return pooled


@in_torch
def avg_pool2d(
    x: Any,
    kernel: int,
    stride: int,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each kernel of places of x [B, C, H, W]."""

    def backward(g: Any) -> tuple[Any]:
        return (launch("avg_pool2d_backward", [g, x], x.shape, x.dtype),)

    return launch("avg_pool2d", [x], _pooled(x, kernel, stride, padding), x.dtype, backward=backward)


@in_torch
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Groups of the channels of x [B, C, …], each normalized over all its places."""
    rows = (x.shape[0], groups)

    def backward(g: Any, *_: Any) -> tuple[Any, ...]:
        return launch_gradients("native_group_norm_backward", [g, x, weight], (x, weight, bias))

    return launch_many(
        "native_group_norm",
        [x, weight, bias],
        [(x.shape, x.dtype), (rows, x.dtype), (rows, x.dtype)],
        backward=backward,
        differentiable=1,
    )[0]


@in_torch
def roll(x: Any, shifts: Sequence[int], dims: Sequence[int]) -> Any:
    """x with its entries moved around along axes."""

    def backward(g: Any) -> tuple[Any]:
        return (roll(g, [-shift for shift in shifts], dims),)

    return launch("roll", [x], x.shape, x.dtype, backward=backward)
