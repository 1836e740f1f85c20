"""Compressed attention: a window of tokens, and behind it one key for each block of tokens.

B batch, T new tokens, S tokens in the window, M closed blocks, D d_model, H heads, d head_dim, g o_groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import StateContent, Tensor
from archcli.modules.attention.base import SoftmaxAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.compressed.compressor import BlockCompressor, BlockIndexer
from archcli.modules.networks.norm import Norm, RMSNorm
from archcli.modules.spec.base import Conflict, Inherit, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import BlockDiagonal, JoinBlocks, Linear, Mask, NearAndBlocks, SplitHeads, Unsqueeze
from archcli.ops.attention.blocks import near_mask

LATENT = "mla_latent_norm"


class BlockwiseAttention(SoftmaxAttention):
    """Attention to the newest tokens and to blocks of all earlier ones. DeepSeek-V4, section 2.3.

    One vector of each token is key and value for all heads; so is one of each block.

        c = norm(Wqa x),  q = norm(Wqb c)  [H, d],  k = v = norm(Wkv x)  [d]
        z = softmax(d^-0.5 q [k of the window | keys of blocks]^T) [the same]
        y = Wob [Woa_1 z_1 | … | Woa_g z_g]             z_i the heads of group i, o_lora_rank numbers each

    `o_groups` is g. `query_norm` is the norm of each head of q. RoPE turns q, k and the keys of blocks, and z
    back by the query's position, so that what a value gives goes by its distance. Without `compressor` a
    layer sees its `window` alone; with it also every closed block (heavily compressed attention, rate 128),
    or with `index` the `top_k` of them that it chooses (compressed sparse attention, rate 4). Caches d
    elements for each token of the window, d for each block, and the tokens of an open block.
    """

    title: ClassVar[str] = "Compressed attention"
    short_title: ClassVar[str] = "compressed"
    narrows: ClassVar[bool] = True
    kind: Literal["compressed"] = "compressed"
    head_dim: Size
    q_lora_rank: Size
    o_groups: Size = 1
    o_lora_rank: Size
    latent_norm: Annotated[Norm, Inherit("norm")]
    query_norm: Norm = RMSNorm(weight=False)
    compressor: BlockCompressor | None = None
    index: BlockIndexer | None = None

    def own_mask(self) -> Mask:
        """The keys that a query sees: near tokens, and blocks."""
        return super().own_mask() if self.compressor is None else self._mask(0)

    def _mask(self, blocks: Number) -> Mask:
        """The mask of keys, with those of the blocks last."""
        if self.compressor is None:
            return self.mask
        top_k = None if self.index is None else self.index.top_k
        return NearAndBlocks(near_mask(self.window), self.compressor.rate, blocks, top_k)

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """One head of keys and values, and the number of blocks that an index chooses."""
        d = self.head_dim
        return replace(
            super().facts(d_model),
            n_kv_heads=1,
            head_dim=d,
            v_head_dim=d,
            rotary_dim=d,
            indexed=None if self.index is None else self.index.top_k,
            blocks_of=None if self.compressor is None else self.compressor.rate,
        )

    @property
    def _pattern(self) -> str:
        near, compressor, index = super()._pattern, self.compressor, self.index
        if compressor is None:
            return near
        chosen = "" if index is None else f"{index.top_k} "
        return f"{near} + {chosen}blocks of {compressor.rate}"

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of heads of width d."""
        return self.position.table(positions, self.head_dim, name, like)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache has a window [B, n, 1, d], and the states of both compressors."""
        context = or_default(x, context)
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        latent, q, kv = self._projected(x, table)
        (kv,), held = self.extend(context, kv=kv)
        blocks, chosen, states = 0, None, ()
        if self.compressor is not None:
            keys, chosen, states = self._blocks(x, latent, context, table, self.compressor)
            blocks = keys.shape[1]
            kv = JoinBlocks("kv_blocks")(kv, keys)
        mask = self._mask(blocks)
        mixed = self.attend(context, self.head_dim, q, kv, kv, mask=mask, selected=chosen)
        mixed = self.merge(x, self.position.rotate_back(mixed, table, "mixed_rotate"))
        low = BlockDiagonal("o_a_proj", self.o_groups, self.o_groups * self.o_lora_rank, is_matrix=True)
        grouped = low(mixed)
        out: Tensor = Linear("o_b_proj", context.width_of(x))(grouped)
        return out, None if held is None else (*held, *states)

    def _projected(self, x: Tensor, table: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The queries' latent [B, T, q], queries [B, T, H, d], and keys that are values [B, T, 1, d]."""
        latent = self.latent_norm(Linear("q_a_proj", self.q_lora_rank)(x), name="q_a_norm", group=LATENT)
        q = SplitHeads("q_heads", self.n_heads)(Linear("q_b_proj", self.n_heads * self.head_dim)(latent))
        q = self.position.rotate(self.query_norm(q, name="q_norm", group="qk_norm"), table, "q_rotate")
        kv = self.latent_norm(Linear("kv_proj", self.head_dim)(x), name="kv_norm", group=LATENT)
        return latent, q, self.position.rotate(Unsqueeze("kv_head")(kv), table, "kv_rotate")

    def _blocks(
        self, x: Tensor, latent: Tensor, context: Context, table: Any, compressor: BlockCompressor
    ) -> tuple[Tensor, Tensor | None, tuple[Any, ...]]:
        """Keys of blocks [B, M, 1, d], those that the index chooses [B, T, k], and the states of both."""
        # the cache: the window, the compressor's states, the index's
        of_keys, of_index = ((context.cache or (None,))[i : i + 1] for i in (1, 2))
        start: Any = None if context.cache is None else ()
        compressing = context._replace(cache=of_keys[0] if of_keys else start)
        content = StateContent.KEYS_VALUES
        keys, kept = compressor(x, self.head_dim, compressing, self.position, content, name="compressor")
        if self.index is None:
            return keys, None, (kept,)
        compressing = context._replace(cache=of_index[0] if of_index else start)
        # no_grad: top-k passes no gradient to scores
        chosen, kept_index = self.index(
            x, latent, compressing, self.position, table, compressor, name="indexer", no_grad=True
        )
        return keys, chosen, (kept, kept_index)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: an index without blocks, groups that do not divide heads, patterns beside a window."""
        yield from super().check()
        if self.index is not None and self.compressor is None:
            what = "an index chooses blocks, and there is no compressor that makes them"
            yield Conflict(
                "index-without-blocks", "index", what, "add compressor: {rate: …}, or leave it out"
            )
        if self.n_heads % self.o_groups:
            what = f"o_groups {self.o_groups} does not divide n_heads {self.n_heads}"
            yield Conflict("output-groups-divide-heads", "o_groups", what, "a group has whole heads")
        others = [field for field in ("chunk", "sparsity") if getattr(self, field) is not None]
        others += ["causal"] * (not self.causal) + ["normalizer"] * (self.normalizer == "relu")
        if others:
            what = f"{others[0]} is not defined for compressed attention"
            yield Conflict("compressed-plain", others[0], what, "leave it out")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the position with heads of width d, and with those of the index."""
        yield from super().check_width(d_model)
        for conflict in self.position.check_width(self.head_dim):
            yield conflict._replace(path="head_dim") if conflict.path == "position" else conflict
        turned = self.position.rotary_width(self.head_dim)
        if self.index is not None and turned > self.index.head_dim:
            what = f"the position turns {turned} dims, and an index head has {self.index.head_dim}"
            yield Conflict("block-index-rotary-dims", "index.head_dim", what, f"use {turned} or more")
