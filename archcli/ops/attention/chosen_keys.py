"""Ops that choose which keys attention reads: gates on keys, an indexer's top k keys, blocks or pools.

B batch, T new tokens, S visible tokens, H query heads, K kv heads, I index heads, d width of an index head,
b tokens of a block, M blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, at_most, ceil_div, floor_sum, minimum, prod, triangle
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.ops.attention.mask import Causal, Chunked, Mask, TopK, chosen_keys, visibility

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


@dataclass(frozen=True, slots=True, eq=False)
class IndexTopK(Op):
    """The `top_k` keys s of largest I_ts = sum_j w_tj max(q_tj k_s, 0) for each query t, j an index head.

    DeepSeek-V3.2, arXiv:2512.02556. Inputs q [B, T, I, d], keys [B, S, 1, d], w [B, T, I], positions [T].
    Output [B, T, min(k, S)]: indices of visible keys. A query that sees fewer than k keys is given later ones
    as well, which the mask of its attention leaves out.

    `past` tokens came before the new ones. Every key that `mask` allows is scored; `executed` is all T x S
    pairs. The sum over heads is a product, or with `by_element` products and sums (DeepSeek-V4's class). The
    choice has no gradient.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "top k"
    component: ClassVar[str] = "indexer"
    name: str
    top_k: Number
    past: Number = 0
    mask: Mask = Causal()  # noqa: RUF009 - frozen, without fields
    by_element: bool = False

    def shape(self, q: Shape, keys: Shape, w: Shape, positions: Shape) -> Shape:
        return (*q[:2], minimum(self.top_k, keys[1]))

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def parts(self, q: Shape, keys: Shape, w: Shape, positions: Shape) -> tuple[Part, ...]:
        batch, new, heads, width = q
        exact, every = (batch * n for n in (self.mask.pairs(new, self.past, keys[1]), new * keys[1]))
        chosen = prod(self.shape(q, keys, w, positions))
        of_heads = heads * every
        read, of_scores, summed = prod(q) + prod(keys), 2 * heads * width, 2 * heads
        kind = OpClass.ELEMENTWISE if self.by_element else OpClass.CONTRACTION
        return (
            Part("scores", OpClass.CONTRACTION, of_scores * exact, read, of_heads, (), of_scores * every),
            Part("relu", OpClass.ELEMENTWISE, 0, of_heads, of_heads),  # a maximum
            Part("total", kind, summed * exact, of_heads + prod(w), every, (), summed * every),
            Part("top_k", OpClass.ROUTING, 0, every, chosen),
        )

    def workspace(self, width: int, q: Shape, keys: Shape, w: Shape, positions: Shape) -> Workspace:
        """Bytes of the scores of every index head, before and after the maximum."""
        every = q[0] * q[1] * keys[1]
        return Workspace((2 * q[2] + 2) * every * width)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, keys: Any, w: Any, positions: Any) -> Any:
        visible = keys.shape[1]
        q, keys, w = q.detach(), keys.detach(), w.detach()  # a choice has no gradient: nothing is kept
        scores = torch.relu(q.flatten(1, 2) @ keys.squeeze(2).transpose(1, 2)).view(*q.shape[:3], visible)
        if self.by_element:
            total = (w.unsqueeze(-1) * scores).sum(-2)
        else:
            total = (w.unsqueeze(-2) @ scores).squeeze(-2)
        total = total.masked_fill(~visibility(torch, self.mask, positions, visible), float("-inf"))
        return total.topk(min(self.top_k, visible), dim=-1).indices


@dataclass(frozen=True, slots=True, eq=False)
class IndexEvenTopK(Op):
    """The `top_k` pools s of largest I_ts = sum_j max(q_tj k_s, 0) / sqrt(d) for each query t.

    Qwen4-Exp. As `IndexTopK` without weights of heads, of keys of pools that `mask` shows. Inputs q [B, T, I,
    d], keys [B, M, 1, d], positions [T]. Output [B, T, min(k, M)].
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "top k"
    component: ClassVar[str] = "indexer"
    follows_run: ClassVar[bool] = True
    name: str
    top_k: Number
    mask: Mask
    past: Number = 0

    def shape(self, q: Shape, keys: Shape, positions: Shape) -> Shape:
        return (*q[:2], minimum(self.top_k, keys[1]))

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def parts(self, q: Shape, keys: Shape, positions: Shape) -> tuple[Part, ...]:
        batch, new, heads, width = q
        exact, every = (batch * n for n in (self.mask.pairs(new, self.past, keys[1]), new * keys[1]))
        of_heads, of_scores, chosen = heads * every, 2 * heads * width, prod(self.shape(q, keys, positions))
        read = prod(q) + prod(keys)
        return (
            Part("scores", OpClass.CONTRACTION, of_scores * exact, read, of_heads, (), of_scores * every),
            Part("relu", OpClass.ELEMENTWISE, 0, of_heads, of_heads),  # a maximum
            # a sum over heads, divided
            Part("total", OpClass.ELEMENTWISE, heads * exact, of_heads, every, (), heads * every),
            Part("top_k", OpClass.ROUTING, 0, every, chosen),
        )

    def run(self, torch: Any, weights: dict[str, Any], q: Any, keys: Any, positions: Any) -> Any:
        pools = keys.shape[1]
        q, keys = q.detach(), keys.detach()  # a choice has no gradient: nothing is kept
        scores = torch.relu(q.flatten(1, 2) @ keys.squeeze(2).transpose(1, 2)).view(*q.shape[:3], pools)
        total = scores.sum(-2) * q.shape[3] ** -0.5
        total = total.masked_fill(~visibility(torch, self.mask, positions, pools), float("-inf"))
        return total.topk(min(self.top_k, pools), dim=-1).indices


@dataclass(frozen=True, slots=True, eq=False)
class TopBlocks(Mask):
    """The `top_k` blocks of `block` tokens that an indexer chooses of those up to the query's own.

    MiniMax-M3. The query's own block is among them, and of it the keys up to the query. Each of the index's
    heads chooses for `sharing` query heads. Which blocks they are depends on the tokens: `allows` is true of
    every key that may be chosen.
    """

    kind: ClassVar[str] = "top_blocks"
    top_k: Number
    block: Number
    sharing: Number = 1

    @property
    def extent(self) -> Number:
        return self.top_k * self.block

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        earlier = self._earlier(past + new) - self._earlier(past)
        return Chunked(self.block).pairs(new, past, visible) + earlier * self.block

    def _earlier(self, n: Number) -> Number:
        """Whole blocks that the first n queries read: min(q // block, top_k - 1) of each query q."""
        inside = minimum(n, self.top_k * self.block)
        return floor_sum(inside, self.block) + (n - inside) * (self.top_k - 1)

    def allows(self, query: Any, key: Any) -> Any:
        return key <= query

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, self.top_k * self.block)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key: [T, S], or [B, H, T, S] by the blocks `selected` [B, T, I, k]."""
        # a dataclass with slots is made anew, so that super() without arguments would name the old class
        allowed = Mask.sees(self, torch, positions, visible)
        if selected is None:
            return allowed
        blocks = chosen_keys(torch, selected, ceil_div(visible, self.block))
        keys = blocks.repeat_interleave(self.block, dim=-1)[..., :visible]
        return (keys.transpose(1, 2) & allowed).repeat_interleave(self.sharing, dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class IndexBlocks(Op):
    """The `top_k` blocks of `block` keys with the largest score q k of a key, for each query.

    MiniMax-M3. Inputs q [B, T, I, d], keys [B, S, 1, d], positions [T]. Output [B, T, I, min(k, M)]: indices
    of blocks. The query's own block and the `local` - 1 before it are always chosen. A query with fewer
    blocks is given later ones as well, which the mask of its attention leaves out.

    `past` tokens came before the new ones. Every key up to the query is scored; `executed` is all T x S
    pairs. The choice has no gradient.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "top k"
    component: ClassVar[str] = "indexer"
    follows_run: ClassVar[bool] = True
    name: str
    top_k: Number
    block: Number
    local: Number = 1
    past: Number = 0

    def shape(self, q: Shape, keys: Shape, positions: Shape) -> Shape:
        return (*q[:3], minimum(self.top_k, ceil_div(keys[1], self.block)))

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def parts(self, q: Shape, keys: Shape, positions: Shape) -> tuple[Part, ...]:
        batch, new, heads, width = q
        exact, every = (batch * n for n in (Causal().pairs(new, self.past, keys[1]), new * keys[1]))
        of_heads, of_blocks = heads * every, batch * new * heads * ceil_div(keys[1], self.block)
        read, of_scores = prod(q) + prod(keys), 2 * heads * width
        chosen = prod(self.shape(q, keys, positions))
        return (
            Part("scores", OpClass.CONTRACTION, of_scores * exact, read, of_heads, (), of_scores * every),
            Part("largest", OpClass.ELEMENTWISE, 0, of_heads, of_blocks),  # a maximum
            Part("top_k", OpClass.ROUTING, 0, of_blocks, chosen),
        )

    def run(self, torch: Any, weights: dict[str, Any], q: Any, keys: Any, positions: Any) -> Any:
        visible = keys.shape[1]
        q, keys = q.detach(), keys.detach()  # a choice has no gradient: nothing is kept
        scores = (q.flatten(1, 2) @ keys.squeeze(2).transpose(1, 2)).view(*q.shape[:3], visible)
        later = ~visibility(torch, Causal(), positions, visible).unsqueeze(1)
        scores = scores.masked_fill(later, float("-inf"))
        blocks = ceil_div(visible, self.block)
        filled = torch.nn.functional.pad(scores, (0, blocks * self.block - visible), value=float("-inf"))
        largest = filled.view(*q.shape[:3], blocks, self.block).amax(-1)
        distance = (positions // self.block).unsqueeze(-1) - torch.arange(blocks, device=positions.device)
        near = ((distance >= 0) & (distance < self.local)).unsqueeze(1)
        largest = largest.masked_fill(near, float("inf"))
        return largest.topk(min(self.top_k, blocks), dim=-1).indices


@dataclass(frozen=True, slots=True, eq=False)
class PoolsAndTail(Mask):
    """The keys of the `top_k` closed pools of `pool` tokens that an index chooses, and of the open pool.

    GLM-5.3. A pool is closed for a query that sees its last token. Of 7 tokens in pools of 4 the last query
    sees one closed pool, if it is chosen, and the 3 tokens behind it. Which pools are chosen depends on the
    tokens: `allows` is true of every key that may be.
    """

    kind: ClassVar[str] = "pools"
    top_k: Number
    pool: Number

    @property
    def extent(self) -> Number:
        return self.top_k * self.pool

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new) - self._upto(past)

    def _upto(self, n: Number) -> Number:
        """Keys of the first n queries: of q + 1 tokens those in up to `top_k` closed pools, and the rest."""
        inside = minimum(n + 1, self.top_k * self.pool)
        chosen = floor_sum(inside, self.pool) + (n + 1 - inside) * self.top_k
        return triangle(n) - self.pool * (floor_sum(n + 1, self.pool) - chosen)

    def allows(self, query: Any, key: Any) -> Any:
        return key <= query

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, (self.top_k + 1) * self.pool - 1)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key: [T, S], or [B, 1, T, S] by the pools `selected` [B, T, k]."""
        # a dataclass with slots is made anew, so that super() without arguments would name the old class
        allowed = Mask.sees(self, torch, positions, visible)
        if selected is None:
            return allowed
        chosen = chosen_keys(torch, selected, visible // self.pool).repeat_interleave(self.pool, dim=-1)
        chosen = torch.nn.functional.pad(chosen, (0, visible - chosen.shape[-1]))
        pool_of = torch.arange(visible, device=positions.device) // self.pool
        # a query with fewer closed pools than top_k is given later ones, which end behind it
        ends = (pool_of + 1) * self.pool <= positions[:, None] + 1
        return (allowed & (chosen | ~ends)).unsqueeze(1)
