"""Ops that work element by element: activations, Add, Multiply, Scale, Softcap, Clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import Call, In, Kept, New, Out
from archcli.ops.base import SOFTCAP, bias, elementwise, summed

# name -> (FLOPs per element, function of (torch, x)). Sources of the functions: the activation modules.
_FUNCTIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "relu": (0, lambda torch, x: torch.relu(x)),
    "relu2": (1, lambda torch, x: torch.relu(x).square()),
    "gelu": (1, lambda torch, x: torch.nn.functional.gelu(x)),
    "gelu_tanh": (1, lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh")),
    "silu": (1, lambda torch, x: torch.nn.functional.silu(x)),
    "sigmoid": (1, lambda torch, x: torch.sigmoid(x)),
    "softplus": (1, lambda torch, x: torch.nn.functional.softplus(x)),
    "exp": (1, lambda torch, x: torch.exp(x)),
    "tanh": (1, lambda torch, x: torch.tanh(x)),
    "log_sigmoid": (1, lambda torch, x: -torch.nn.functional.softplus(-x)),
}

KEPT_BY_FUNCTION: dict[str, Kept] = {
    **dict.fromkeys(("gelu", "gelu_tanh", "silu", "softplus"), In(0)),
    **dict.fromkeys(("relu", "sigmoid", "exp", "tanh"), Out(0)),
}
"""What the gradient of a function is computed from; any other keeps a step between."""

STEPS_BETWEEN = {"relu2": (1, 1), "log_sigmoid": (1, 2)}
"""Tensors between x and f(x) that are alive at once: without a backward, and with one that keeps some."""


@dataclass(frozen=True, slots=True, eq=False)
class Activate(Op):
    """y = f(x), element by element, f one of the named functions."""

    name: str
    function: str

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise(self.function, prod(x), _FUNCTIONS[self.function][0], saved=1),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (KEPT_BY_FUNCTION.get(self.function) or New(prod(x), call.widths[0]),)

    def space(self, call: Call, x: Shape) -> Workspace:
        steps = STEPS_BETWEEN.get(self.function, (0, 0))[call.execution.records]
        return Workspace(steps * call.widths[0] * prod(x))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return _FUNCTIONS[self.function][1](torch, x)


@dataclass(frozen=True, slots=True, eq=False)
class HeadBias(Op):
    """y = x + b_h: heads x [B, T, H, e] and a trained number for each head."""

    passes_gradient: ClassVar[bool] = True
    keeps_nothing: ClassVar[bool] = True
    name: str

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"bias": (x[-2],)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (bias(prod(x), x[-2]),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x + weights["bias"][:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Add(Op):
    """y = a + b, in the number type of a; b may lack a's first axes, and is then added along them.

    Backward: the gradients of two branches of one tensor are added up where they meet again. With `meets`
    false a and b have nothing in common, and both get the gradient as it is. One that lacks axes gets its sum
    over them.
    """

    passes_gradient: ClassVar[bool] = True
    keeps_nothing: ClassVar[bool] = True
    name: str
    meets: bool = True

    def shape(self, a: Shape, b: Shape) -> Shape:
        return a

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n = prod(a)
        gradients: tuple[Part, ...] = ()
        if len(b) < len(a):
            gradients = (summed(1, n, prod(b)),)
        elif self.meets:
            gradients = (Part("d_0", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=0),)
        return (Part("add", OpClass.ELEMENTWISE, n, n + prod(b), n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return a + (b if b.dtype == a.dtype else b.to(a.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Multiply(Op):
    """y = a * b; b may be [..., 1], one factor per token, whose gradient is a sum over the token."""

    name: str

    def shape(self, a: Shape, b: Shape) -> Shape:
        return a

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, m = prod(a), prod(b)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + m, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n + n - m, 2 * n, m, wrt=1),
        )
        return (Part("multiply", OpClass.ELEMENTWISE, n, n + m, n, gradients),)

    def kept(self, call: Call, a: Shape, b: Shape) -> tuple[Kept, ...]:
        return tuple(In(i) for i in (0, 1) if call.grads[1 - i])

    def widths(self, call: Call, a: Shape, b: Shape) -> tuple[Number, ...]:
        return (max(call.widths),)

    def strides(self, call: Call, a: Shape, b: Shape) -> tuple[bool, ...]:
        return call.strided[:1]

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return a * b


@dataclass(frozen=True, slots=True, eq=False)
class Scale(Op):
    """y = c * x for a constant c, rounded to the width of x as a weight of that width would be."""

    keeps_nothing: ClassVar[bool] = True
    name: str
    factor: float

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("scale", prod(x)),)

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(call.widths[0])  # the constant

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * torch.tensor(self.factor, dtype=x.dtype, device=x.device)


@dataclass(frozen=True, slots=True, eq=False)
class ScaleParts(Op):
    """y = c_i x on the i-th of consecutive pieces of the last axis, of these sizes, for constants c_i."""

    name: str
    sizes: tuple[Number, ...]
    factors: tuple[float, ...]

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("scale", prod(x)),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (New(x[-1], call.widths[0]),)

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(2 * call.widths[0] * x[-1])  # the constants in pieces, and joined

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        pieces = [x.new_full((size,), c) for size, c in zip(self.sizes, self.factors, strict=True)]
        return x * torch.cat(pieces)


@dataclass(frozen=True, slots=True, eq=False)
class Softcap(Op):
    """y = cap * tanh(x / cap); Gemma 2, arXiv:2408.00118 section 2."""

    name: str
    cap: float

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("softcap", prod(x), SOFTCAP, saved=1),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (New(prod(x), call.widths[0]),)

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(call.widths[0] * prod(x))  # x / cap, then its tanh

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return self.cap * torch.tanh(x / self.cap)


@dataclass(frozen=True, slots=True, eq=False)
class Clip(Op):
    """y = min(max(x, -bound), bound); only the min where not `from_below`.

    Neither costs a FLOP; the elements still move.
    """

    name: str
    bound: float
    from_below: bool = True

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("clip", prod(x), 0, saved=1),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (In(0),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.clamp(-self.bound if self.from_below else None, self.bound)
