"""Functions of torch that make a tensor: filled with a number, counted up, padded or repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.kernels.dtypes import FP32, INT64, DType, of_number, promoted
from archcli.kernels.functions.views import contiguous_copy, expand, flatten, sizes_of, unsqueeze
from archcli.kernels.launching import broadcast, launch
from archcli.kernels.layouts import preserved_strides
from archcli.kernels.tensor import ShapeTensor, Sizes, in_torch, method


@method
def repeat_interleave(x: Any, repeats: int, dim: int) -> Any:
    dim %= x.ndim
    wide = unsqueeze(x, dim + 1)
    wide = expand(wide, (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]))
    return flatten(contiguous_copy(wide), dim, dim + 1)


@in_torch
def pad(x: Any, widths: Sequence[int], mode: str = "constant", value: float = 0) -> Any:
    shape = list(x.shape)
    for i in range(len(widths) // 2):
        shape[-1 - i] += widths[2 * i] + widths[2 * i + 1]
    back = [-w for w in widths]
    return launch("constant_pad_nd", [x], tuple(shape), x.dtype, backward=lambda g: (pad(g, back),))


def _made(name: str, shape: Sequence[Any], dtype: DType | None) -> Any:
    return launch(name, [], tuple(sizes_of(shape)), dtype or FP32)


@in_torch
def zeros(*shape: Any, dtype: DType | None = None, device: Any = None) -> Any:
    return _made("zeros", shape, dtype)


@in_torch
def ones(*shape: Any, dtype: DType | None = None, device: Any = None) -> Any:
    return _made("ones", shape, dtype)


@in_torch
def full(shape: Sizes, value: float, dtype: DType | None = None, device: Any = None) -> Any:
    return _made("full", (shape,), dtype or of_number(value))


@in_torch
def arange(*bounds: Any, dtype: DType | None = None, device: Any = None) -> Any:
    numbers = range(*bounds)
    length = max(0, -((numbers.start - numbers.stop) // numbers.step))  # len() of it has a limit
    return _made("arange", (length,), dtype or INT64)


@in_torch
def tensor(value: Any, dtype: DType | None = None, device: Any = None) -> Any:
    shape = (len(value),) if isinstance(value, list | tuple) else ()
    number = value[0] if shape else value
    return ShapeTensor(shape, dtype or of_number(number))


def _like(name: str) -> None:
    def function(x: Any, *_: Any, dtype: DType | None = None, **__: Any) -> Any:
        return launch(name, [], x.shape, dtype or x.dtype, strides=preserved_strides(x))

    function.__name__ = name
    in_torch(function)


for _name in ("zeros_like", "ones_like", "full_like"):
    _like(_name)


@method
def new_zeros(x: Any, *shape: Any, dtype: DType | None = None) -> Any:
    return _made("new_zeros", shape, dtype or x.dtype)


@method
def new_full(x: Any, shape: Sizes, value: float, dtype: DType | None = None) -> Any:
    return _made("new_full", (shape,), dtype or x.dtype)


@in_torch
def promote_types(a: DType, b: DType) -> DType:
    return promoted(a, b)


@in_torch
def broadcast_tensors(*xs: Any) -> Any:
    shape = broadcast(*[x.shape for x in xs])
    return tuple(expand(x, shape) for x in xs)
