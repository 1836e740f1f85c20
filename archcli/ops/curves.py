"""Activations with constants of their own, fixed or trained: Swish, xIELU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1, log
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import BOOL, Call, In, Kept, New
from archcli.graph.part import NO_WORKSPACE
from archcli.ops.base import elementwise


@dataclass(frozen=True, slots=True, eq=False)
class ActivateSwish(Op):
    """y = x * sigmoid(beta x) (arXiv:1710.05941); beta fixed, or a trained scalar that starts there."""

    name: str
    beta: float
    learnt: bool = False

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"beta": (1,)} if self.learnt else {}

    def initial(self, weight: str) -> float | None:
        return self.beta

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        part = elementwise("swish", n, saved=1)
        return (_with_scalars(part, n, "beta") if self.learnt else part,)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (In(0), New(prod(x), call.widths[0]))

    def space(self, call: Call, x: Shape) -> Workspace:
        return Workspace(call.widths[0] * prod(x))  # beta x, then its sigmoid

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * torch.sigmoid(weights.get("beta", self.beta) * x)


@dataclass(frozen=True, slots=True, eq=False)
class ActivateXIELU(Op):
    """y = a x^2 + beta x for x > 0, else b (exp(min(x, -eps)) - 1 - x) + beta x (arXiv:2411.13010).

    a = softplus(alpha_p) and b = beta + softplus(alpha_n), of two trained scalars.
    """

    name: str
    beta: float
    eps: float

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"alpha_p": (1,), "alpha_n": (1,)}

    def initial(self, weight: str) -> float | None:
        return log(expm1(0.8 if weight == "alpha_p" else 0.3))

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        return (_with_scalars(elementwise("xielu", n, saved=1), n, "alpha_p", "alpha_n"),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        n, scalar = New(prod(x), call.widths[0]), New(1, call.widths[0])
        kept: list[Kept] = [In(0), New(prod(x), BOOL)]
        kept += [n] if call.trained else []  # exp(x) - 1 - x
        return (*kept, n, n, scalar, scalar) if call.grads[0] else tuple(kept)

    def space(self, call: Call, x: Shape) -> Workspace:
        """Both curves, what is chosen of them, and beta x; a and b."""
        if call.execution.records:
            return NO_WORKSPACE
        return Workspace(call.widths[0] * 4 * prod(x) + call.width * 2)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        softplus = torch.nn.functional.softplus
        positive, negative = softplus(weights["alpha_p"]), self.beta + softplus(weights["alpha_n"])
        above, below = positive * x * x, (torch.expm1(x.clamp(max=-self.eps)) - x) * negative
        return torch.where(x > 0, above, below) + self.beta * x


def _with_scalars(part: Part, n: Number, *weights: str) -> Part:
    """An element-wise function's cost with that of trained scalars, whose gradients are sums over all."""
    sums = tuple(Part(f"d_{name}", OpClass.NORMALIZATION, n, 2 * n, 1, wrt=name) for name in weights)
    return replace(part, read=part.read + len(weights), backward=(*part.backward, *sums))
