"""Functions of torch that sum up rows: deviations, the log of a sum of exponentials, batch norms."""

from __future__ import annotations

from typing import Any

from archcli.kernels.dtypes import FP32
from archcli.kernels.launching import elementwise, launch, launch_gradients, launch_many
from archcli.kernels.log import current
from archcli.kernels.tensor import in_torch, operation


@operation
def std(x: Any, dim: int, keepdim: bool = False, correction: int = 1) -> Any:
    """The standard deviation along an axis."""
    axis = dim % x.ndim

    def backward(g: Any) -> tuple[Any]:
        of_variance = (g / (y * 2)).masked_fill(y == 0, 0)
        if not keepdim:
            of_variance = of_variance.unsqueeze(axis)
        return (of_variance * (2 / (x.shape[axis] - correction)) * (x - x.mean(axis, keepdim=True)),)

    shape = (*x.shape[:axis], *((1,) if keepdim else ()), *x.shape[axis + 1 :])
    y = launch("std", [x], shape, x.dtype, backward=backward)
    return y


@operation
def logsumexp(x: Any, dim: int) -> Any:
    """log sum exp x along an axis."""
    axis = dim % x.ndim

    def backward(g: Any) -> tuple[Any]:
        return (g.unsqueeze(axis) * (x - y.unsqueeze(axis)).exp(),)

    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    y = launch("logsumexp", [x], shape, x.dtype, backward=backward)
    return y


@in_torch
def ndtri(x: Any) -> Any:
    """The quantiles of a normal distribution."""
    return elementwise("special_ndtri", x)


@in_torch
def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of x [N, C, …] by its statistics: those of x in training, which are kept."""
    channels = (x.shape[1],)
    statistic = FP32 if current().on_cuda else x.dtype
    kept = channels if training else (0,)

    def backward(g: Any, *_: Any) -> tuple[Any, ...]:
        given = [g, x, weight, mean, variance]
        return launch_gradients("native_batch_norm_backward", given, (x, None, None, weight, bias))

    return launch_many(
        "native_batch_norm",
        [x, mean, variance, weight, bias],
        [(x.shape, x.dtype), (kept, statistic), (kept, statistic)],
        backward=backward,
        differentiable=1,
    )[0]
