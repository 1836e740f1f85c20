"""Compressor: one key for each block of tokens; and an indexer that chooses among such keys.

B batch, T new tokens, D d_model, r tokens of a block, M blocks, d width of a key, I index heads.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from archcli.arith import Number
from archcli.graph import StateContent, Tensor
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import Position
from archcli.modules.spec.base import Inherit, Module, Size
from archcli.modules.spec.context import Context
from archcli.ops import (
    BlockPositions,
    Causal,
    ClosedBlocks,
    CompressTokens,
    ExtendBlocks,
    IndexTopK,
    Linear,
    Scale,
    SplitHeads,
    Unsqueeze,
)

States = tuple[Tensor, ...] | None


class BlockCompressor(Module):
    """One key for each block of `rate` tokens: a sum of their keys, weighed by a softmax of gates.

    DeepSeek-V4, section 2.3.

        k_s = Wk x_s,  g_s = Wg x_s + p_(s mod r)       p trained for each place in a block
        c_i = norm(sum over s in block i of softmax(g)_s k_s)

    Each channel has a softmax of its own. A position turns c_i by that of the block's first token. With
    `overlaps` Wk and Wg give two halves for each token: the sum is over the second halves of the block's
    tokens and the first halves of those of the block before. Caches d elements for each closed block, and k
    and g of the tokens of the open one.
    """

    group: ClassVar[str] = "compressor"
    rate: Size
    overlaps: bool = False
    norm: Annotated[Norm, Inherit("norm")]

    def forward(
        self, x: Tensor, width: Number, context: Context, position: Position, content: StateContent
    ) -> tuple[Tensor, States]:
        """Keys [B, M, 1, d] of all blocks closed so far, and what is kept: open block, then these keys."""
        # the norm counts under the heading that the compressor is called with
        group = "indexer" if content is StateContent.INDEX_KEYS else self.group
        projected, cache = width * 2 if self.overlaps else width, context.cache
        k, gate = Linear("key_proj", projected)(x), Linear("gate_proj", projected)(x)
        compress = CompressTokens("compress", self.rate, self.overlaps, cache is not None)
        keys, *kept = compress(k, gate, *(cache or ())[:-1])
        first = BlockPositions("positions", self.rate, keys.shape[1])(context.positions)
        table = position.table(first, width, "rotary", x)
        keys = Unsqueeze("head")(self.norm(keys, name="norm", group=group))
        keys = position.rotate(keys, table, "rotate")
        if cache is None:
            return keys, None
        seen = context.past + context.positions.shape[0]
        append = ExtendBlocks("block_cache", Causal(), content=content, rate=self.rate, seen=seen)
        every, held = append(keys, *cache[-1:])
        return every, (*kept, held)


class BlockIndexer(Module):
    """The `top_k` blocks i of largest I_ti = sum_j w_tj max(q_tj c_i, 0), j one of I index heads.

    DeepSeek-V4, section 2.3.1: the indexer of DeepSeek-V3.2 on keys c of blocks, from a compressor of its own
    like the attention's, `head_dim` wide. Attention reads the chosen blocks alone.

        q = Wq c_t  [I, d],  w = Ww x / sqrt(I d)  [I],  c_t the latent of the attention's queries
    """

    group: ClassVar[str] = "indexer"
    top_k: Size
    n_heads: Size
    head_dim: Size

    def forward(
        self,
        x: Tensor,
        latent: Tensor,
        context: Context,
        position: Position,
        table: tuple[Tensor, Tensor] | None,
        compressor: BlockCompressor,
    ) -> tuple[Tensor, States]:
        """Chosen blocks [B, T, k] of tokens x [B, T, D], and what its compressor keeps."""
        keys, kept = compressor(
            x,
            self.head_dim,
            context,
            position,
            StateContent.INDEX_KEYS,
            name="compressor",
            group=self.group,
        )
        q = SplitHeads("query_heads", self.n_heads)(
            Linear("query_proj", self.n_heads * self.head_dim)(latent)
        )
        q = position.rotate(q, table, "query_rotate")
        # I^-0.5 of the weights and d^-0.5 of the scores at once: max(s, 0) lets a positive factor through
        w = Scale("weight_scale", (self.n_heads * self.head_dim) ** -0.5)(
            Linear("weight_proj", self.n_heads)(x)
        )
        mask = ClosedBlocks(compressor.rate)
        choose = IndexTopK("top_k", self.top_k, context.past, mask, by_element=True)
        return choose(q, keys, w, context.positions), kept
