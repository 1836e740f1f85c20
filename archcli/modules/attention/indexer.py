"""Indexers: small scorers that choose which keys, blocks of keys or pools of keys attention reads.

B batch, T new tokens, S visible tokens, D d_model, I index heads, d width of an index head, r rotary dims, M
closed pools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import StateContent, Tensor
from archcli.modules.networks.norm import LayerNorm, Norm
from archcli.modules.positions.position import Position
from archcli.modules.spec.base import Conflict, Inherit, Module, Size
from archcli.modules.spec.context import Context
from archcli.ops import (
    AverageBlocks,
    BlockPositions,
    Causal,
    ClosedBlocks,
    CompressTokens,
    ExtendBlocks,
    ExtendCache,
    IndexBlocks,
    IndexEvenTopK,
    IndexTopK,
    Linear,
    Mask,
    PoolsAndTail,
    Scale,
    SplitHeads,
    TopBlocks,
    TopK,
    Unsqueeze,
)
from archcli.ops.attention.rotary import Pairing

Chosen = tuple[Tensor, tuple[Tensor, ...] | None]
Table = tuple[Tensor, Tensor] | None


class KeyIndex(Module):
    """Base of indexers, which score all earlier keys by small heads and choose some for attention to read.

    The first r dims of its queries and keys are turned by the angles of the attention's; `pairing` left out
    pairs them as it does. Caches d elements per token.

    The choice has no gradient, so none flows through an indexer: its weights are trained by a loss of their
    own, which is not counted (arXiv:2512.02556 section 2.1.1).
    """

    family: ClassVar[str] = "index"
    default_kind: ClassVar[str] = "tokens"
    group: ClassVar[str] = "indexer"
    top_k: Size
    n_heads: Size
    head_dim: Size
    pairing: Pairing | None = None
    norm: Norm

    @property
    def n_keys(self) -> Number:
        """The most keys that a query is given."""
        return self.top_k

    @property
    def pattern(self) -> str:
        """What is chosen, in words."""
        return f"top_k {self.top_k}"

    def mask(self, n_heads: Number) -> Mask:
        """Which keys a query of an attention with H heads sees."""
        raise NotImplementedError

    def forward(self, x: Tensor, c: Tensor, context: Context, position: Position, table: Table) -> Chosen:
        """The choice for tokens x [B, T, D], queries from c; the cache holds k [B, n, 1, d]."""
        raise NotImplementedError

    def _queries(self, c: Tensor) -> Tensor:
        """Queries [B, T, I, d]."""
        heads = Linear("query_proj", self.n_heads * self.head_dim)(c)
        split: Tensor = SplitHeads("query_heads", self.n_heads)(heads)
        return split

    def _turned(self, position: Position) -> Position:
        """The attention's position, with the pairing of the index."""
        # DeepSeek-V3.2's indexer pairs halves, its attention neighbours: equal angles, other dims
        return position if self.pairing is None else position.replace(pairing=self.pairing)

    def _keys(self, x: Tensor, position: Position, table: Table) -> Tensor:
        """Keys [B, T, 1, d] of tokens x."""
        key = self.norm(Linear("key_proj", self.head_dim)(x), name="key_norm", group=self.group)
        return position.rotate(Unsqueeze("key_head")(key), table, "key_rotate")

    def _weights(self, x: Tensor) -> Tensor:
        """The weights [B, T, I] of the heads' scores, of tokens x."""
        w = Linear("weight_proj", self.n_heads)(x)
        # I^-0.5 of the weights and d^-0.5 of the scores at once: max(s, 0) lets a positive factor through
        scaled: Tensor = Scale("weight_scale", (self.n_heads * self.head_dim) ** -0.5)(w)
        return scaled

    def _extend(self, key: Tensor, context: Context) -> Chosen:
        """All keys [B, S, 1, d], and what the cache keeps."""
        if context.cache is None:
            return key, None
        # Causal keeps every key: a later query may choose any of them
        append = ExtendCache("key_cache", Causal(), content=StateContent.INDEX_KEYS)
        key, *kept = append(key, *context.cache)
        return key, tuple(kept)

    def conflicts_in(self, pattern: str | None, position: Position, n_heads: int) -> Iterator[Conflict]:
        """Conflicts with an attention: another `pattern`, a position without pairs, too few heads."""
        if pattern is not None:
            what = f"an index chooses of all tokens up to the query, and {pattern} says otherwise"
            yield Conflict("index-alone", "index", what, "leave one of them out")
        if self.pairing is not None and position.acts_on != "heads":
            what = "pairing is that of a rotary position, and the attention has none"
            yield Conflict("index-pairing", "index.pairing", what, "leave it out, or state position: rope")

    def check_rotation(self, turned: int) -> Iterator[Conflict]:
        """Conflict: a position that turns more dims than a head has."""
        if turned > self.head_dim:
            what = f"the position turns {turned} dims, and an index head has {self.head_dim}"
            yield Conflict("index-rotary-dims", "index.head_dim", what, f"use {turned} or more")


class Indexer(KeyIndex):
    """The `top_k` tokens s of largest I_ts = sum_j w_tj max(q_tj k_s, 0), j one of I index heads.

    DeepSeek-V3.2, arXiv:2512.02556 section 2.1. Attention reads those tokens alone.

        q = Wq c  [I, d],  k = norm(Wk x)  [d],  w = Ww x / sqrt(I d)  [I]

    c is the normalized latent of MLA's queries where there is one, else x.
    """

    kind: Literal["tokens"] = "tokens"
    norm: Norm = LayerNorm(eps=1e-6)

    def mask(self, n_heads: Number) -> Mask:
        """The chosen keys, the same for all heads."""
        return TopK(self.top_k)

    def forward(self, x: Tensor, c: Tensor, context: Context, position: Position, table: Table) -> Chosen:
        """Chosen keys [B, T, k] of tokens x [B, T, D], queries from c; the cache holds k [B, n, 1, d]."""
        position = self._turned(position)
        q = position.rotate(self._queries(c), table, "query_rotate")
        keys = self._keys(x, position, table)
        w = self._weights(x)
        keys, kept = self._extend(keys, context)
        chosen = IndexTopK("top_k", self.top_k, context.past)(q, keys, w, context.positions)
        return chosen, kept


class KeyBlockIndexer(KeyIndex):
    """The `top_k` blocks of `block` tokens with the largest q_tj k_s of a token, for each index head j.

    MiniMax-M3. Each head chooses for H / I query heads of the attention, which read those blocks alone, up
    to the query.

        q = norm(Wq c)  [I, d],  k = norm(Wk x)  [d]

    The query's own block and the `local` - 1 before it are always among the chosen.
    """

    kind: Literal["blocks"] = "blocks"
    block: Size
    local: Size = 1
    norm: Annotated[Norm, Inherit("norm")]

    @property
    def n_keys(self) -> Number:
        """Keys of all chosen blocks."""
        return self.top_k * self.block

    @property
    def pattern(self) -> str:
        """Blocks and their size."""
        return f"top_k {self.top_k} blocks of {self.block}"

    def mask(self, n_heads: Number) -> Mask:
        """The keys of the chosen blocks, H / I query heads alike."""
        return TopBlocks(self.top_k, self.block, n_heads // self.n_heads)

    def forward(self, x: Tensor, c: Tensor, context: Context, position: Position, table: Table) -> Chosen:
        """Chosen blocks [B, T, I, k] of x [B, T, D], queries from c; the cache holds k [B, n, 1, d]."""
        position = self._turned(position)
        q = self.norm(self._queries(c), name="query_norm", group=self.group)
        q = position.rotate(q, table, "query_rotate")
        keys, kept = self._extend(self._keys(x, position, table), context)
        choose = IndexBlocks("top_k", self.top_k, self.block, self.local, context.past)
        return choose(q, keys, context.positions), kept

    def conflicts_in(self, pattern: str | None, position: Position, n_heads: int) -> Iterator[Conflict]:
        """Conflicts with an attention: also more local blocks than chosen ones, and heads that share none."""
        yield from super().conflicts_in(pattern, position, n_heads)
        if self.local > self.top_k:
            what = f"local {self.local} is more than top_k {self.top_k}"
            yield Conflict("index-local-blocks", "index.local", what, f"use {self.top_k} or fewer")
        if n_heads % self.n_heads:
            what = f"{self.n_heads} index heads do not divide n_heads {n_heads}"
            yield Conflict("index-heads-divide", "index.n_heads", what, "each chooses for as many heads")


class PoolIndex(KeyIndex):
    """Base of indexers of pools: attention reads the tokens of chosen pools, and of the pool still open.

    Caches d elements for each closed pool, and what the open one is made of, as vLLM and SGLang do; classes
    of transformers keep what all tokens have and pool it anew in every pass.
    """

    pool: Size

    @property
    def n_keys(self) -> Number:
        """Keys of all chosen pools, and of the longest open one."""
        return self.top_k * self.pool + self.pool - 1

    @property
    def pattern(self) -> str:
        """Pools and their size."""
        return f"top_k {self.top_k} pools of {self.pool}"

    def mask(self, n_heads: Number) -> Mask:
        """The keys of the chosen pools and of the open one, the same for all heads."""
        return PoolsAndTail(self.top_k, self.pool)

    def _all_pools(self, pooled: Tensor, kept: list[Tensor], context: Context) -> Chosen:
        """Keys [B, M, 1, d] of all closed pools, and the cache: `kept` of the open one, then these keys."""
        if context.cache is None:
            return pooled, None
        seen = context.past + context.positions.shape[0]
        content = StateContent.INDEX_KEYS
        append = ExtendBlocks("pool_cache", Causal(), content=content, rate=self.pool, seen=seen)
        every, held = append(pooled, *context.cache[-1:])
        return every, (*kept, held)


class KeyPoolIndexer(PoolIndex):
    """The K pools i of P tokens with the largest I_ti = sum_j w_tj max(q_tj c_i, 0).

    GLM-5.3. Attention reads the tokens of those pools, and those of the pool that is still open.

        q = Wq c  [I, d],  k_s = norm(Wk x_s)  [d],  g_s = Wg x_s + p_(s mod pool)  [d]
        c_i = sum over s in pool i of softmax(g)_s k_s          a softmax for each channel

    w and c are those of DeepSeek-V3.2's indexer; keys have no positions. Caches d elements for each closed
    pool, and k and g of the tokens of the open one, as vLLM and SGLang do; transformers' class keeps k and g
    of all tokens and pools them anew in every pass.
    """

    kind: Literal["pools"] = "pools"
    norm: Norm = LayerNorm(eps=1e-6)

    def forward(self, x: Tensor, c: Tensor, context: Context, position: Position, table: Table) -> Chosen:
        """Chosen pools [B, T, k] of x [B, T, D], queries from c; the cache: open pool, keys [B, M, 1, d]."""
        q, w, cache = self._queries(c), self._weights(x), context.cache
        k = self.norm(Linear("key_proj", self.head_dim)(x), name="key_norm", group=self.group)
        gate = Linear("gate_proj", self.head_dim)(x)
        compress = CompressTokens("compress", self.pool, overlaps=False, keep=cache is not None)
        pooled, *open_pool = compress(k, gate, *(cache or ())[:-1])
        pools, kept = self._all_pools(Unsqueeze("pool_head")(pooled), open_pool, context)
        choose = IndexTopK("top_k", self.top_k, context.past, ClosedBlocks(self.pool))
        return choose(q, pools, w, context.positions), kept

    def conflicts_in(self, pattern: str | None, position: Position, n_heads: int) -> Iterator[Conflict]:
        """Conflicts with an attention: also a position, which a pool of several tokens does not have."""
        yield from super().conflicts_in(pattern, position, n_heads)
        if position.acts_on == "heads":
            what = "an index of pools has no positions, and the attention's turns its keys"
            yield Conflict("index-pools-position", "index", what, "state position: none")


class MeanPoolIndexer(PoolIndex):
    """The K pools i of P tokens with the largest I_ti = sum_j max(q_tj c_i, 0).

    Qwen4-Exp. Attention reads the tokens of those pools, and those of the pool that is still open.

        q = turned(norm(Wq x))  [I, d],  k_s = Wk x_s  [d],  c_i = turned(norm(mean of k_s, s in pool i))

    A position turns c_i by that of the pool's first token. Caches d elements for each closed pool, and k of
    the tokens of the open one.
    """

    kind: Literal["mean_pools"] = "mean_pools"
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, x: Tensor, c: Tensor, context: Context, position: Position, table: Table) -> Chosen:
        """Chosen pools [B, T, k] of x [B, T, D], queries from c; the cache: open pool, keys [B, M, 1, d]."""
        position, cache = self._turned(position), context.cache
        q = self.norm(self._queries(c), name="query_norm", group=self.group)
        q = position.rotate(q, table, "query_rotate")
        average = AverageBlocks("average", self.pool, cache is not None)
        means, *open_pool = average(Linear("key_proj", self.head_dim)(x), *(cache or ())[:-1])
        pooled = Unsqueeze("pool_head")(self.norm(means, name="key_norm", group=self.group))
        if table is not None:
            first = BlockPositions("pool_positions", self.pool, means.shape[1])(context.positions)
            # as many dims as of the attention's heads, which may be wider
            turns = position.table(first, 2 * table[0].shape[-1], "pool_rotary", x)
            pooled = position.rotate(pooled, turns, "pool_rotate")
        pools, kept = self._all_pools(pooled, open_pool, context)
        choose = IndexEvenTopK("top_k", self.top_k, ClosedBlocks(self.pool), context.past)
        return choose(q, pools, context.positions), kept
