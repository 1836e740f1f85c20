"""Ops of hyper-connections: gates of residual streams, and their weighted sum (arXiv:2409.19606).

B batch, T new tokens, n streams, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import Call, In, Kept, New
from archcli.ops.base import summed


@dataclass(frozen=True, slots=True, eq=False)
class StreamGates(Op):
    """m_p sigmoid(s_p z + b) + eps for each set p of gates: z [B, T, P n], a set after the other.

    `magnitudes` are the constants m_p; `scale` [P] and `base` [P n] are trained. Forward a product, a sum, a
    sigmoid and a sum with eps an element, and a product where m_p is not 1. The gradient of z has the sigmoid
    and the products, that of s_p a product and a sum, that of b a sum.
    """

    name: str
    magnitudes: tuple[float, ...]
    eps: float

    def shape(self, z: Shape) -> Shape:
        return z

    def weights(self, z: Shape) -> dict[str, Shape]:
        return {"scale": (len(self.magnitudes),), "base": (z[-1],)}

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "scale" else 0.0

    def parts(self, z: Shape) -> tuple[Part, ...]:
        n, sets = prod(z), len(self.magnitudes)
        scaled = n // sets * sum(magnitude != 1.0 for magnitude in self.magnitudes)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 2 * n + scaled, 2 * n + sets, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 2 * n, sets, wrt="scale"),
            summed("base", n, z[-1]),
        )
        return (Part("gates", OpClass.ELEMENTWISE, 4 * n + scaled, n + sets + z[-1], n, gradients),)

    def kept(self, call: Call, z: Shape) -> tuple[Kept, ...]:
        gates = New(prod(z), call.widths[0])
        return (In(0), gates) if call.trained else (gates,)

    def run(self, torch: Any, weights: dict[str, Any], z: Any) -> Any:
        sets = len(self.magnitudes)
        parted = torch.unflatten(z, -1, (sets, -1))
        base = torch.unflatten(weights["base"], 0, (sets, -1))
        gates = torch.sigmoid(parted * weights["scale"][:, None] + base)
        each = zip(self.magnitudes, gates.unbind(-2), strict=True)
        pieces = [gate if magnitude == 1.0 else gate * magnitude for magnitude, gate in each]
        return torch.cat(pieces, dim=-1) + self.eps


@dataclass(frozen=True, slots=True, eq=False)
class CollapseStreams(Op):
    """The sum of streams x [B, T, n, D], each times its gate c [B, T, n]: [B, T, D]."""

    name: str

    def shape(self, x: Shape, c: Shape) -> Shape:
        return (*x[:-2], x[-1])

    def parts(self, x: Shape, c: Shape) -> tuple[Part, ...]:
        n, one, gates = prod(x), prod(self.shape(x, c)), prod(c)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, one + gates, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, 2 * n - gates, n + one, gates, wrt=1),
        )
        return (Part("collapse", OpClass.ELEMENTWISE, 2 * n - one, n + gates, one, gradients),)

    def kept(self, call: Call, x: Shape, c: Shape) -> tuple[Kept, ...]:
        return tuple(In(i) for i in (0, 1) if call.grads[1 - i])

    def run(self, torch: Any, weights: dict[str, Any], x: Any, c: Any) -> Any:
        return (x * c.unsqueeze(-1)).sum(-2)
