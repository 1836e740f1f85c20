"""Ops that work element by element: activations, Add, Multiply, Scale, Softcap, Dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1, log
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import Call
from archcli.graph.part import NO_WORKSPACE
from archcli.ops.base import SOFTCAP, bias, elementwise, summed

QUICK = 1.702
"""The beta at which Swish is the quick GELU, an approximation of GELU (arXiv:1606.08415 section 2)."""

# name -> (FLOPs per element, function of (torch, x)). Sources of the functions: the activation modules.
_FUNCTIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "relu": (0, lambda torch, x: torch.relu(x)),
    "relu6": (0, lambda torch, x: torch.nn.functional.relu6(x)),
    # add 3, a division by 6, the product with x
    "hard_swish": (3, lambda torch, x: torch.nn.functional.hardswish(x)),
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


@dataclass(frozen=True, slots=True, eq=False)
class Activate(Op):
    """y = f(x), element by element, f one of the named functions."""

    follows_run: ClassVar[bool] = True
    name: str
    function: str

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise(self.function, prod(x), _FUNCTIONS[self.function][0], saved=1),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(activation=self.function)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return _FUNCTIONS[self.function][1](torch, x)


@dataclass(frozen=True, slots=True, eq=False)
class HeadBias(Op):
    """y = x + b_h: heads x [B, T, H, e] and a trained number for each head."""

    drawn: ClassVar[str] = "view"
    passes_gradient: ClassVar[bool] = True
    name: str

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

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "+"
    passes_gradient: ClassVar[bool] = True
    name: str
    meets: bool = True

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
    """y = a * b; b may have axes of length 1, as one factor per token, along which its gradient is a sum."""

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "×"
    name: str

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, m = prod(a), prod(b)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + m, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n + n - m, 2 * n, m, wrt=1),
        )
        return (Part("multiply", OpClass.ELEMENTWISE, n, n + m, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return a * b


@dataclass(frozen=True, slots=True, eq=False)
class Scale(Op):
    """y = c * x for a constant c, rounded to the width of x as a weight of that width would be."""

    drawn: ClassVar[str] = "scale"
    sign: ClassVar[str] = "scale"
    name: str
    factor: float

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("scale", prod(x)),)

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(call.widths[0])  # the constant

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * torch.tensor(self.factor, dtype=x.dtype, device=x.device)


@dataclass(frozen=True, slots=True, eq=False)
class ScaleParts(Op):
    """y = c_i x on the i-th of consecutive pieces of the last axis, of these sizes, for constants c_i."""

    drawn: ClassVar[str] = "scale"
    name: str
    sizes: tuple[Number, ...]
    factors: tuple[float, ...]

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("scale", prod(x)),)

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(2 * call.widths[0] * x[-1])  # the constants in pieces, and joined

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        pieces = [x.new_full((size,), c) for size, c in zip(self.sizes, self.factors, strict=True)]
        return x * torch.cat(pieces)


@dataclass(frozen=True, slots=True, eq=False)
class Softcap(Op):
    """y = cap * tanh(x / cap); Gemma 2, arXiv:2408.00118 section 2."""

    sign: ClassVar[str] = "softcap"
    follows_run: ClassVar[bool] = True
    name: str
    cap: float

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("softcap", prod(x), SOFTCAP, saved=1),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(marks=(f"softcap {self.cap:g}",))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return self.cap * torch.tanh(x / self.cap)


@dataclass(frozen=True, slots=True, eq=False)
class Clip(Op):
    """y = min(max(x, -bound), bound); only the min where not `from_below`.

    Neither costs a FLOP; the elements still move.
    """

    sign: ClassVar[str] = "clip"
    name: str
    bound: float
    from_below: bool = True

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("clip", prod(x), 0, saved=1),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.clamp(-self.bound if self.from_below else None, self.bound)


@dataclass(frozen=True, slots=True, eq=False)
class ActivateSwish(Op):
    """y = x * sigmoid(beta x) (arXiv:1710.05941); beta fixed, or a trained scalar that starts there."""

    sign: ClassVar[str] = "Swish"
    follows_run: ClassVar[bool] = True
    name: str
    beta: float
    learnt: bool = False

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"beta": (1,)} if self.learnt else {}

    def initial(self, weight: str) -> float | None:
        return self.beta

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        part = elementwise("swish", n, saved=1)
        return (_with_scalars(part, n, "beta") if self.learnt else part,)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(activation="quick_gelu" if self.beta == QUICK and not self.learnt else "swish")

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * torch.sigmoid(weights.get("beta", self.beta) * x)


@dataclass(frozen=True, slots=True, eq=False)
class ActivateXIELU(Op):
    """y = a x^2 + beta x for x > 0, else b (exp(min(x, -eps)) - 1 - x) + beta x (arXiv:2411.13010).

    a = softplus(alpha_p) and b = beta + softplus(alpha_n), of two trained scalars.
    """

    sign: ClassVar[str] = "xIELU"
    name: str
    beta: float
    eps: float

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"alpha_p": (1,), "alpha_n": (1,)}

    def initial(self, weight: str) -> float | None:
        # the inverse of softplus: a starts at 0.8, and b at beta + 0.3 = 0.8 for a beta of 0.5
        return log(expm1(0.8 if weight == "alpha_p" else 0.3))

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        return (_with_scalars(elementwise("xielu", n, saved=1), n, "alpha_p", "alpha_n"),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(activation="xielu")

    def space(self, call: Call, x: Shape) -> Workspace:
        """Both curves, the one chosen by sign, and beta x; a and b."""
        if call.execution.records:
            return NO_WORKSPACE
        return Workspace(call.widths[0] * 4 * prod(x) + call.width * 2)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        softplus = torch.nn.functional.softplus
        positive, negative = softplus(weights["alpha_p"]), self.beta + softplus(weights["alpha_n"])
        above, below = positive * x * x, (torch.expm1(x.clamp(max=-self.eps)) - x) * negative
        return torch.where(x > 0, above, below) + self.beta * x


def _with_scalars(part: Part, n: Number, *weights: str) -> Part:
    """An element-wise function's cost with trained scalars; their gradients are sums over all elements."""
    sums = tuple(Part(f"d_{name}", OpClass.NORMALIZATION, n, 2 * n, 1, wrt=name) for name in weights)
    return replace(part, read=part.read + len(weights), backward=(*part.backward, *sums))


@dataclass(frozen=True, slots=True, eq=False)
class Dropout(Op):
    """y = x * mask / (1 - p) in training, each element of the mask 0 with probability p; else y = x.

    Srivastava et al. 2014 (JMLR 15). One FLOP per element, forward and backward (Ivanov et al.,
    arXiv:2007.00072). The mask is written beside the result and read again by the gradient. Drawing random
    numbers is no FLOP.
    """

    drawn: ClassVar[str] = "view"
    name: str
    p: float
    needs_module: ClassVar[bool] = True

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradient = Part("d_0", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=0)
        return (Part("dropout", OpClass.ELEMENTWISE, n, n, 2 * n, (gradient,), training=True),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.Dropout(self.p)
