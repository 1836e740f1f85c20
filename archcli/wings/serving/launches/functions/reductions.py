"""Functions of torch that sum or average along axes: softmax, norms, deviations, lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.arith import prod
from archcli.wings.serving.launches.dtypes import FP32, INT64, REAL, DType
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import elementwise, launch, launch_gradients, launch_many
from archcli.wings.serving.launches.layouts import is_channels_last
from archcli.wings.serving.launches.log import current
from archcli.wings.serving.launches.tensor import Sizes, in_torch, operation


def _axes(x: Any, dim: Any) -> list[int]:
    if dim is None:
        return list(range(x.ndim))
    return [d % x.ndim for d in (dim if isinstance(dim, Sequence) else [dim])]


def reduced_shape(x: Any, axes: list[int], *, keepdim: bool) -> Sizes:
    """The shape of a reduction over these axes."""
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i not in axes)


def _spread(g: Any, x: Any, axes: list[int], *, keepdim: bool) -> Any:
    """A gradient of a reduction, as a view in the shape of its input."""
    if not keepdim:
        for axis in sorted(axes):
            g = g.unsqueeze(axis)
    return g.expand(x.shape)


@operation
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    axes = _axes(x, dim)
    wanted = dtype or (x.dtype if x.dtype.kind >= REAL else INT64)
    return launch(
        "sum",
        [x],
        reduced_shape(x, axes, keepdim=keepdim),
        wanted,
        backward=lambda g: (_spread(g, x, axes, keepdim=keepdim).to(x.dtype),),
    )


@operation
def mean(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    axes = _axes(x, dim)
    n = prod([x.shape[i] for i in axes])
    return launch(
        "mean",
        [x],
        reduced_shape(x, axes, keepdim=keepdim),
        x.dtype,
        backward=lambda g: (_spread(g, x, axes, keepdim=keepdim) / n,),
    )


@in_torch
def norm(x: Any, *, dim: int) -> Any:
    """torch.linalg.norm of rows without a gradient."""
    return launch("linalg_vector_norm", [x], reduced_shape(x, _axes(x, dim), keepdim=False), x.dtype)


def _converted(x: Any, dtype: DType | None) -> Any:
    """x in the number type of a softmax: a GPU's kernel converts fp16 itself, else a kernel before it."""
    within = current().on_cuda and x.dtype.name == "fp16" and dtype == FP32
    return x if dtype is None or within else x.to(dtype)


def _normalizing(name: str) -> None:
    """Register softmax or its logarithm, whose gradient is computed from its result."""

    def function(x: Any, dim: int = -1, dtype: DType | None = None) -> Any:
        # not in place of x, which the caller holds until torch returns
        converted = _converted(x, dtype)

        def backward(g: Any) -> tuple[Any]:
            return (launch(f"_{name}_backward_data", [g, y], converted.shape, converted.dtype),)

        y = launch(f"_{name}", [converted], converted.shape, dtype or converted.dtype, backward=backward)
        return y

    function.__name__ = name
    operation(function)


_normalizing("softmax")
_normalizing("log_softmax")


@in_torch
def layer_norm(x: Any, shape: Sizes, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    rows = (*x.shape[: x.ndim - len(shape)], *(1,) * len(shape))
    statistic = FP32 if current().on_cuda else x.dtype

    def backward(g: Any, *_: Any) -> tuple[Any, ...]:
        return launch_gradients("native_layer_norm_backward", [g, x, weight, bias], (x, weight, bias))

    return launch_many(
        "native_layer_norm",
        [x, weight, bias],
        [(x.shape, x.dtype), (rows, statistic), (rows, statistic)],
        backward=backward,
        differentiable=1,
    )[0]


@in_torch
def rms_norm(x: Any, shape: Sizes, weight: Any = None, eps: float | None = None) -> Any:
    """One kernel on a GPU; step by step in fp32 on a CPU, of images, and where number types differ."""
    alike = weight is None or weight.dtype == x.dtype
    if not (current().on_cuda and alike) or is_channels_last(x):
        wide = x.float()
        normalized = wide * (wide.pow(2).mean(-1, keepdim=True) + (eps or 0)).rsqrt()
        return (normalized if weight is None else normalized * weight).to(x.dtype)
    rows = (*x.shape[: x.ndim - len(shape)], *(1,) * len(shape))

    def backward(g: Any, *_: Any) -> tuple[Any, ...]:
        return launch_gradients("_fused_rms_norm_backward", [g, x, weight], (x, weight))

    return launch_many(
        "_fused_rms_norm",
        [x, weight],
        [(x.shape, x.dtype), (rows, FP32)],
        backward=backward,
        differentiable=1,
    )[0]


@in_torch
def embedding(ids: Any, table: Any) -> Any:
    """Rows of a table: what is read is the rows, not the table."""
    shape = (*ids.shape, table.shape[1])

    def backward(g: Any) -> tuple[Any, ...]:
        gradient = launch("embedding_dense_backward", [g, ids], table.shape, table.dtype)
        return (None, gradient)

    rows = prod(shape) * table.itemsize + ids.bytes
    return launch(
        "embedding", [ids, table], shape, table.dtype, backward=backward, work=StatedWork(read=rows)
    )


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
        reads = [g, x, weight, mean, variance]
        return launch_gradients("native_batch_norm_backward", reads, (x, None, None, weight, bias))

    return launch_many(
        "native_batch_norm",
        [x, mean, variance, weight, bias],
        [(x.shape, x.dtype), (kept, statistic), (kept, statistic)],
        backward=backward,
        differentiable=1,
    )[0]
