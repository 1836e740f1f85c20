"""Transient global attention: keys of tokens near the query, and of sums of blocks of all tokens.

B batch, T tokens, M = T // r blocks of r tokens, D d_model, H heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.grouped import MultiHeadAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.relative import RelativeBuckets
from archcli.modules.spec.base import Conflict, Inherit, Size
from archcli.modules.spec.context import Context
from archcli.ops import BlockBias, Concat, JoinBlocks, Linear, Mask, NearAndSums, SplitHeads, SumBlocks

NOT_OF_SUMS = (
    "bias",
    "qk_norm",
    "clip",
    "global_projections",
    "v_norm",
    "kv_from",
    "value_gate",
    "index",
    "blocks",
)
"""Fields of attention that are not defined for keys of sums."""


class TransientGlobalAttention(MultiHeadAttention):
    """o(softmax(scale q [k | k_g]^T) [v | v_g]) with k_g = Wk g and v_g = Wv g, g = norm(sums of blocks).

    LongT5, Guo et al. 2021, arXiv:2112.07916 section 3.2. A block is `block` tokens; those behind the last
    whole block join it. Every query sees the sums of all blocks, and of tokens those that `sparsity` allows.
    Wk and Wv are those of the tokens, `block_norm` has a weight of its own. For encoders.
    """

    title: ClassVar[str] = "Transient global attention"
    short_title: ClassVar[str] = "transient"
    kind: Literal["transient_global"] = "transient_global"  # type: ignore[assignment]
    block: Size
    block_norm: Annotated[Norm, Inherit("norm")]

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of its attention, and the tokens of a block."""
        return replace(super().facts(d_model), blocks_of=self.block)

    @property
    def _pattern(self) -> str:
        return f"{super()._pattern} + sums of {self.block}"

    def attend(
        self,
        context: Context,
        d_query: Number,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        name: str = "attend",
        mask: Mask | None = None,
        **optional: Tensor | None,
    ) -> Tensor:
        """As softmax attention; the last keys are those of sums."""
        mask = NearAndSums(self.own_mask(), q.shape[1] // self.block)
        return super().attend(context, d_query, q, k, v, name, mask, **optional)

    def _entries(
        self, x: Tensor, d: Number, table: tuple[Tensor, Tensor] | None, scored: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Keys and values of tokens x, and behind them those of the sums of their blocks."""
        sums = self.block_norm(SumBlocks("block_sums", self.block)(x), name="block_norm")
        width_v = d if self.v_head_dim is None else self.v_head_dim
        entries = super()._entries(x, d, table, scored)
        return {
            "k": JoinBlocks("k_join")(entries["k"], self._of_sums(x, sums, "k", d)),
            "v": JoinBlocks("v_join")(entries["v"], self._of_sums(x, sums, "v", width_v)),
        }

    def _of_sums(self, x: Tensor, sums: Tensor, which: Literal["k", "v"], width: Number) -> Tensor:
        """Keys or values [B, M, H, d] of the sums, by the projection of the tokens x."""
        out = self.n_heads * width
        weight = x.tape.weight(self._matrix(which, out), x, which="weight")
        projected = Linear(f"{which}_block_proj", out, borrowed=True)(sums, weight)
        split: Tensor = SplitHeads(f"{which}_block_heads", self.n_heads)(projected)
        return split

    def check(self) -> Iterator[Conflict]:
        """Conflicts: causal, or a field that says more of keys than their projection."""
        yield from super().check()
        if self.causal:
            what = "sums of blocks hold later tokens"
            yield Conflict("transient-encoder", "causal", what, "state causal: false")
        others = [name for name in NOT_OF_SUMS if getattr(self, name) not in (None, False, ())]
        others += ["values"] * (self.values != "projected")
        others += ["value_multiplier"] * (self.value_multiplier != 1.0)
        # a bias or rotation of a layer's own has a place for each token, and none for a sum
        others += ["position"] * (self.position.acts_on in {"heads", "keys", "scores"})
        if others:
            what = f"{others[0]} is not defined for transient global attention"
            yield Conflict("transient-plain", others[0], what, "leave it out")


class TokenAndBlockBuckets(RelativeBuckets):
    """The bias of `RelativeBuckets` for tokens, and behind it that of another table for sums of blocks.

    LongT5, arXiv:2112.07916 section 3.2. The distance of a query to a sum is that of its block, in blocks of
    `block` tokens. For layers of transient global attention.
    """

    kind: Literal["token_and_block_buckets"] = "token_and_block_buckets"  # type: ignore[assignment]
    block: Size

    @property
    def blocks_of(self) -> Number | None:
        """The tokens of a block."""
        return self.block

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, H, T, S + M]."""
        near = super().forward(positions, visible, n_heads, name=name)
        blocks = visible // self.block
        op = BlockBias(
            f"{name}_blocks",
            self.n_buckets,
            n_heads,
            blocks,
            self.max_distance,
            self.bidirectional,
            self.block,
        )
        bias: Tensor = Concat(f"{name}_join")(near, op(positions))
        return bias
