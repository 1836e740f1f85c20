"""GateKeys: keys that gates of their own choose.

B batch, T new tokens, S visible tokens, H query heads, K kv heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, minimum, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import BOOL, INT64, Call, Kept, New
from archcli.ops.mask import Causal, TopK, visibility

INDEX_BYTES = 8
"""Bytes of the index of a key while it is chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class GateKeys(Op):
    """The gates of the `top_k` visible keys of largest gate, for each query and kv head; -inf for others.

    Doge, arXiv:2508.02124. Inputs gates [B, S, K], positions [T]. Output [B, H, T, S], what is added to the
    scores of `heads` H query heads, H/K of which share a kv head.

    `past` tokens came before the new ones. The choice costs no FLOP; the gradient of a gate is a sum over the
    queries and heads that it is chosen for.
    """

    name: str
    heads: Number
    top_k: Number
    past: Number = 0

    def shape(self, gates: Shape, positions: Shape) -> Shape:
        return (gates[0], self.heads, positions[0], gates[1])

    def parts(self, gates: Shape, positions: Shape) -> tuple[Part, ...]:
        batch, visible, _ = gates
        exact = batch * self.heads * TopK(self.top_k).pairs(positions[0], self.past, visible)
        every, n = prod(self.shape(gates, positions)), prod(gates)
        total = Part("d_0", OpClass.NORMALIZATION, exact, every, n, executed=every, wrt=0)
        return (Part("top_k", OpClass.ROUTING, 0, n, every, (total,)),)

    def kept(self, call: Call, gates: Shape, positions: Shape) -> tuple[Kept, ...]:
        """Which keys come later, and which were chosen."""
        chosen = gates[0] * gates[2] * positions[0] * minimum(self.top_k, gates[1])
        return (New(positions[0] * gates[1], BOOL), New(chosen, INT64))

    def workspace(self, width: int, gates: Shape, positions: Shape) -> Workspace:
        """Bytes of the gates of every query, of those chosen with their indices, and of both put together."""
        of_query = gates[0] * gates[2] * positions[0]
        chosen = minimum(self.top_k, gates[1])
        return Workspace(of_query * (2 * gates[1] * width + chosen * (width + INDEX_BYTES)))

    def run(self, torch: Any, weights: dict[str, Any], gates: Any, positions: Any) -> Any:
        visible, none = gates.shape[1], float("-inf")
        later = ~visibility(torch, Causal(), positions, visible)
        of_query = gates.transpose(1, 2).unsqueeze(2).masked_fill(later, none)
        best, chosen = of_query.topk(min(self.top_k, visible), dim=-1)
        kept = torch.full_like(of_query, none).scatter(-1, chosen, best)
        return kept.repeat_interleave(self.heads // gates.shape[2], dim=1)
