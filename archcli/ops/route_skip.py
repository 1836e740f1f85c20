"""SkipLast: tokens whose choice is no expert go through the first one, and count for nothing.

E experts, k choices of E + 1 for each token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import BOOL, INT64, Call, Kept, New


@dataclass(frozen=True, slots=True, eq=False)
class SkipLast(Op):
    """Weights and indices [B, T, k] with weight 0 and index 0 where the index is E (ZAYA1's class)."""

    name: str
    n_experts: Number

    def shape(self, weights: Shape, index: Shape) -> tuple[Shape, Shape]:
        return weights, index

    def parts(self, weights: Shape, index: Shape) -> tuple[Part, ...]:
        n = prod(weights)
        gradient = Part("d_0", OpClass.ROUTING, n, 2 * n, n, wrt=0)
        return (Part("skip", OpClass.ROUTING, n, 2 * n, 2 * n, (gradient,)),)

    def kept(self, call: Call, weights: Shape, index: Shape) -> tuple[Kept, ...]:
        return (New(prod(weights), BOOL),)

    def widths(self, call: Call, weights: Shape, index: Shape) -> tuple[Number, ...]:
        return (call.widths[0], INT64)

    def run(self, torch: Any, weights: dict[str, Any], gates: Any, index: Any) -> Any:
        computes = index < self.n_experts
        return gates * computes, index * computes
