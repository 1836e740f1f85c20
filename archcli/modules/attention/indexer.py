"""Indexer: a small scorer that chooses which keys attention reads (DeepSeek Sparse Attention).

B batch, T new tokens, S visible tokens, D d_model, I index heads, d width of an index head, r rotary dims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from archcli.graph import StateContent, Tensor
from archcli.modules.networks.norm import LayerNorm, Norm
from archcli.modules.positions.position import Position
from archcli.modules.spec.base import Conflict, Module, Size
from archcli.modules.spec.context import Context
from archcli.ops import Causal, ExtendCache, IndexTopK, Linear, Scale, SplitHeads, Unsqueeze
from archcli.ops.attention.rotary import Pairing


class Indexer(Module):
    """The `top_k` tokens s of largest I_ts = sum_j w_tj max(q_tj k_s, 0), j one of I index heads.

    DeepSeek-V3.2, arXiv:2512.02556 section 2.1. Attention reads those tokens alone.

        q = Wq c  [I, d],  k = norm(Wk x)  [d],  w = Ww x / sqrt(I d)  [I]

    c is the normalized latent of MLA's queries where there is one, else x. The first r dims of q and k are
    turned by the angles of the attention's; `pairing` left out pairs them as it does. Caches d elements per
    token.

    The choice has no gradient, so none flows through an indexer: its weights are trained by a loss of their
    own, which is not counted (section 2.1.1).
    """

    group: ClassVar[str] = "indexer"
    top_k: Size
    n_heads: Size
    head_dim: Size
    pairing: Pairing | None = None
    norm: Norm = LayerNorm(eps=1e-6)

    def forward(
        self,
        x: Tensor,
        c: Tensor,
        context: Context,
        position: Position,
        table: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Chosen keys [B, T, k] of tokens x [B, T, D], queries from c; the cache holds k [B, n, 1, d]."""
        # DeepSeek-V3.2's indexer pairs halves, its attention neighbours: equal angles, other dims
        turned = position if self.pairing is None else position.replace(pairing=self.pairing)
        q = SplitHeads("query_heads", self.n_heads)(Linear("query_proj", self.n_heads * self.head_dim)(c))
        q = turned.rotate(q, table, "query_rotate")
        key = self.norm(Linear("key_proj", self.head_dim)(x), name="key_norm", group=self.group)
        key = turned.rotate(Unsqueeze("key_head")(key), table, "key_rotate")
        w = Linear("weight_proj", self.n_heads)(x)
        # I^-0.5 of the weights and d^-0.5 of the scores at once: max(s, 0) lets a positive factor through
        w = Scale("weight_scale", (self.n_heads * self.head_dim) ** -0.5)(w)
        kept = None
        if context.cache is not None:
            # Causal keeps every key: a later query may choose any of them
            append = ExtendCache("key_cache", Causal(), content=StateContent.INDEX_KEYS)
            key, *kept = append(key, *context.cache)
        chosen = IndexTopK("top_k", self.top_k, context.past)(q, key, w, context.positions)
        return chosen, None if kept is None else tuple(kept)

    def conflicts_in(self, pattern: str | None, position: Position) -> Iterator[Conflict]:
        """Conflicts with an attention: another `pattern`, or a position without pairs."""
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
