"""IndexTopK: an indexer's choice of k keys for each query.

B batch, T new tokens, S visible tokens, I index heads, d width of an index head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, minimum, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import INT64, Call
from archcli.ops.mask import Causal, visibility


@dataclass(frozen=True, slots=True, eq=False)
class IndexTopK(Op):
    """The `top_k` keys s of largest I_ts = sum_j w_tj max(q_tj k_s, 0) for each query t, j an index head.

    DeepSeek-V3.2, arXiv:2512.02556. Inputs q [B, T, I, d], keys [B, S, 1, d], w [B, T, I], positions [T].
    Output [B, T, min(k, S)]: numbers of visible keys. A query that sees fewer than k keys is given later ones
    as well, which the mask of its attention leaves out.

    `past` tokens came before the new ones. Every key that is not later is scored; `executed` is all T x S
    pairs. The choice has no gradient.
    """

    component: ClassVar[str] = "indexer"
    name: str
    top_k: Number
    past: Number = 0

    def shape(self, q: Shape, keys: Shape, w: Shape, positions: Shape) -> Shape:
        return (*q[:2], minimum(self.top_k, keys[1]))

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def parts(self, q: Shape, keys: Shape, w: Shape, positions: Shape) -> tuple[Part, ...]:
        batch, new, heads, width = q
        exact, every = (batch * n for n in (Causal().pairs(new, self.past, keys[1]), new * keys[1]))
        chosen = prod(self.shape(q, keys, w, positions))
        of_heads = heads * every
        read, of_scores, summed = prod(q) + prod(keys), 2 * heads * width, 2 * heads
        return (
            Part("scores", OpClass.CONTRACTION, of_scores * exact, read, of_heads, (), of_scores * every),
            Part("relu", OpClass.ELEMENTWISE, 0, of_heads, of_heads),  # a maximum
            Part("total", OpClass.CONTRACTION, summed * exact, of_heads + prod(w), every, (), summed * every),
            Part("top_k", OpClass.ROUTING, 0, every, chosen),
        )

    def widths(self, call: Call, *xs: Shape) -> tuple[Number, ...]:
        return (INT64,)

    def workspace(self, width: int, q: Shape, keys: Shape, w: Shape, positions: Shape) -> Workspace:
        """Bytes of the scores of every index head, before and after the maximum."""
        every = q[0] * q[1] * keys[1]
        return Workspace((2 * q[2] + 2) * every * width)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, keys: Any, w: Any, positions: Any) -> Any:
        visible = keys.shape[1]
        q, keys, w = q.detach(), keys.detach(), w.detach()  # a choice has no gradient: nothing is kept
        scores = torch.relu(q.flatten(1, 2) @ keys.squeeze(2).transpose(1, 2)).view(*q.shape[:3], visible)
        total = (w.unsqueeze(-2) @ scores).squeeze(-2)
        total = total.masked_fill(~visibility(torch, Causal(), positions, visible), float("-inf"))
        return total.topk(min(self.top_k, visible), dim=-1).indices
