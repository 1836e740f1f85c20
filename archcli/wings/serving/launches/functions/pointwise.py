"""Element-wise functions of torch, and what their backward launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.wings.serving.launches.dtypes import BOOL, COMPLEX, FP32, INT32, INT64, REAL, DType
from archcli.wings.serving.launches.kernel import TOLD_BY_TENSORS
from archcli.wings.serving.launches.launching import (
    elementwise,
    launch,
    launch_many,
    needs_grad,
    result_type,
    sum_to,
)
from archcli.wings.serving.launches.layouts import is_channels_last, preserved_strides
from archcli.wings.serving.launches.log import current
from archcli.wings.serving.launches.tensor import ShapeTensor, in_torch, method, operation, row_major


def _two(name: str, a: Any, b: Any, of_a: Callable[[Any], Any], of_b: Callable[[Any], Any]) -> ShapeTensor:
    """Launch a function of two tensors; needed gradients are summed to the shapes of their inputs."""

    def backward(g: Any) -> tuple[Any, ...]:
        return tuple([sum_to(f(g), x.shape) if needs_grad(x) else None for x, f in ((a, of_a), (b, of_b))])

    return elementwise(name, a, b, backward=backward)


@operation
def add(a: Any, b: Any, *, alpha: float = 1) -> Any:
    return _two("add", a, b, lambda g: g, lambda g: g if alpha == 1 else g * alpha)


@operation
def sub(a: Any, b: Any) -> Any:
    return _two("sub", a, b, lambda g: g, lambda g: -g)


@operation
def rsub(a: Any, b: Any) -> Any:
    return elementwise("rsub", a, b, backward=lambda g: (-g,))


@operation
def mul(a: Any, b: Any) -> Any:
    return _two("mul", a, b, lambda g: g * b, lambda g: g * a)


@operation
def div(a: Any, b: Any) -> Any:
    out = result_type(a, b)
    if out.kind < REAL:
        return elementwise("div", a, b, dtype=FP32)
    return _two("div", a, b, lambda g: g / b, lambda g: -g * ((a / b) / b))


@operation
def pow_(a: Any, b: Any) -> Any:
    if not isinstance(a, ShapeTensor):
        return elementwise("pow", a, b)
    return elementwise("pow", a, b, backward=lambda g: (g * (a.pow(b - 1) * b),))


@operation
def square(x: Any) -> Any:
    return pow_(x, 2)


@operation
def addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    def scaled(g: Any, factor: Any) -> Any:
        return mul(g, mul(factor, value))

    def backward(g: Any) -> tuple[Any, ...]:
        return (
            sum_to(g, x.shape) if needs_grad(x) else None,
            sum_to(scaled(g, b), a.shape) if needs_grad(a) else None,
            sum_to(scaled(g, a), b.shape) if needs_grad(b) else None,
        )

    return elementwise("addcmul", x, a, b, backward=backward)


Gradient = Callable[[Any, Any], Any]
"""From the gradient of the output and the input or result to the gradient of the input."""


def _of_result(name: str, gradient: Gradient) -> None:
    """Register a function of one whose gradient is computed from its result."""

    def function(x: Any) -> Any:
        y = elementwise(name, x, dtype=_real(x), backward=lambda g: (gradient(g, y),))
        return y

    function.__name__ = name
    operation(function)


def _of_input(name: str, gradient: Gradient) -> None:
    """Register a function of one whose gradient is computed from its input."""

    def function(x: Any) -> Any:
        return elementwise(name, x, dtype=_real(x), backward=lambda g: (gradient(g, x),))

    function.__name__ = name
    operation(function)


def _real(x: ShapeTensor) -> DType:
    return x.dtype if x.dtype.kind in (REAL, COMPLEX) else FP32


def _in_one(name: str) -> Gradient:
    """A gradient that one kernel of this name computes from the output's and the input or result."""
    return lambda g, x: elementwise(name, g, x)


_of_result("exp", lambda g, y: g * y)
_of_result("sqrt", lambda g, y: g / (y * 2))
_of_result("rsqrt", lambda g, y: g * -0.5 * y.pow(3))
_of_result("sigmoid", _in_one("sigmoid_backward"))
_of_result("tanh", _in_one("tanh_backward"))
_of_result("relu", _in_one("threshold_backward"))
_of_result("reciprocal", lambda g, y: -g * (y * y))
_of_input("log", lambda g, x: g / x)
_of_input("cos", lambda g, x: g * -x.sin())
_of_input("sin", lambda g, x: g * x.cos())
_of_input("log1p", lambda g, x: g / (x + 1))
_of_input("exp2", lambda g, x: g * x)


@operation
def neg(x: Any) -> Any:
    return elementwise("neg", x, backward=lambda g: (-g,))


@operation
def abs_(x: Any) -> Any:
    return elementwise("abs", x, backward=lambda g: (g * elementwise("sgn", x),))


def _curve(name: str, *options: str, kernel: str = "") -> None:
    """Register an activation of torch.nn.functional; one kernel computes its gradient from its input.

    `kernel` is what torch calls it, where that is not the function's name.
    """
    kernel = kernel or name

    def function(x: Any, **keywords: Any) -> Any:
        if unknown := keywords.keys() - {*options}:
            raise NotImplementedError(f"kernels of torch.nn.functional.{name} with {unknown} are not known")
        return elementwise(kernel, x, backward=lambda g: (elementwise(f"{kernel}_backward", g, x),))

    function.__name__ = name
    in_torch(function)


_curve("silu")
_curve("hardswish")
_curve("gelu", "approximate")
_curve("softplus", "beta", "threshold")
_curve("elu", "alpha")
_curve("relu6", kernel="hardtanh")


@operation
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return elementwise(
        "masked_fill",
        x,
        mask,
        dtype=x.dtype,
        backward=lambda g: (sum_to(g.masked_fill(mask, value), x.shape),),
    )


@method
def to(x: Any, *args: Any, dtype: DType | None = None, memory_format: Any = None, **_: Any) -> Any:
    """x in another number type; if asked, in the order of its axes where torch takes it for an image."""
    target = next(
        (a.dtype if isinstance(a, ShapeTensor) else a for a in args if not isinstance(a, str)), None
    )
    wanted = dtype or (target if isinstance(target, DType) else x.dtype)
    in_order = memory_format == "contiguous"
    if wanted == x.dtype and not (in_order and is_channels_last(x)):
        return x
    out = elementwise("_to_copy", x, dtype=wanted, backward=lambda g: (g.to(x.dtype),))
    out.strides = row_major(x.shape) if in_order else preserved_strides(x)
    return out


@method
def float_(x: Any) -> Any:
    return to(x, FP32)


@method
def bool_(x: Any) -> Any:
    return to(x, BOOL)


@method
def long(x: Any) -> Any:
    return to(x, INT64)


@method
def int_(x: Any) -> Any:
    return to(x, INT32)


@method
def type_as(x: Any, like: Any) -> Any:
    return to(x, like.dtype)


def _comparison(name: str) -> None:
    def function(a: Any, b: Any) -> Any:
        return elementwise(name, a, b, dtype=BOOL)

    function.__name__ = name
    operation(function)


for _name in ("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_not"):
    _comparison(_name)


def _without_gradient(name: str) -> None:
    def function(*xs: Any) -> Any:
        return elementwise(name, *xs)

    function.__name__ = name
    operation(function)


for _name in (
    "bitwise_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "floor_divide",
    "remainder",
    "floor",
    "ceil",
    "sgn",
    "sign",
):
    _without_gradient(_name)


@in_torch
def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Draw and multiply: one kernel on a GPU, several on a CPU."""
    if not training or not p:
        return x
    if current().on_cuda:
        return launch_many(
            "native_dropout",
            [x],
            [(x.shape, x.dtype), (x.shape, BOOL)],
            backward=lambda g, *_: (launch("native_dropout_backward", [g], g.shape),),
            differentiable=1,
        )[0]
    mask = launch("bernoulli", [], x.shape, x.dtype)
    current().run("div", [mask], [mask], TOLD_BY_TENSORS)  # in place: by the share that stays
    return x * mask


@operation
def clamp(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (low if min is None else min), (high if max is None else max)

    def backward(g: Any) -> tuple[Any]:
        zero = launch("scalar_tensor", [], (), g.dtype)
        inside = [x.ge(low)] if low is not None else []
        inside += [x.le(high)] if high is not None else []
        chosen = inside[0] if len(inside) == 1 else inside[0].logical_and(inside[1])
        return (where(chosen, g, zero),)

    bounds = [bound for bound in (low, high) if isinstance(bound, ShapeTensor)]
    return elementwise("clamp", x, *bounds, backward=backward)


@in_torch
def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; a number becomes a tensor first."""
    dtype = result_type(a, b)
    a, b = (x if isinstance(x, ShapeTensor) else launch("scalar_tensor", [], (), dtype) for x in (a, b))

    def backward(g: Any) -> tuple[Any, ...]:
        return (
            None,
            sum_to(where(condition, g, 0), a.shape) if needs_grad(a) else None,
            sum_to(where(condition, 0, g), b.shape) if needs_grad(b) else None,
        )

    return elementwise("where", condition, a, b, dtype=dtype, backward=backward)
