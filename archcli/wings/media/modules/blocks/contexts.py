"""Attention of sounds: in blocks of tokens, each with some tokens before it, and with a gated bias.

B batch, T tokens, n blocks, s tokens of a block, S keys of a block, D width, H heads, d their width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, cast

from archcli.graph import Tensor
from archcli.modules.attention.grouped import MultiHeadAttention
from archcli.modules.positions.relative import RelativeKey, RelativeVector
from archcli.modules.spec.base import Conflict, Count, Size
from archcli.modules.spec.context import Context
from archcli.ops import (
    Activate,
    CutSpans,
    Distances,
    Einsum,
    JoinSpans,
    Linear,
    MaskSpans,
    Multiply,
    Parameter,
    Positions,
    Sinusoid,
    SpanDistances,
    SplitHeads,
)


class BlockContextAttention(MultiHeadAttention):
    """Attention of each block of `block` tokens to its own, and to the `before` tokens in front of it.

    All pairs of a block are computed, those of padding as well, and masked. With `pads_tokens` tokens are
    padded to whole blocks before they are projected (Granite Speech), else what is projected. `reach` bounds
    how far behind it a query sees. `sinusoids` adds to scores q Wr s_(i-j), s the sinusoid of a distance from
    0 to `before` (Transformer-XL, arXiv:1901.02860 section 3.3). `trained_scale` multiplies queries by
    softplus(c), c a trained number of each channel (Gemma 4).
    """

    title: ClassVar[str] = "Attention in blocks"
    short_title: ClassVar[str] = "block attention"
    kind: Literal["block_context"] = "block_context"  # type: ignore[assignment]
    causal: bool = False
    block: Size
    before: Count = 0
    reach: Count | None = None
    pads_tokens: bool = False
    sinusoids: bool = False
    trained_scale: bool = False

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; nothing is cached."""
        d, length = self.width(x.shape[-1]), x.shape[1]
        read = CutSpans("blocks", self.block)(x) if self.pads_tokens else x
        q = SplitHeads("q_heads", self.n_heads)(self._cut(self._projected(read, "q", self.n_heads * d), "q"))
        k, v = (
            SplitHeads(f"{which}_heads", self.n_heads)(
                self._cut(self._projected(read, which, self.n_heads * d), which)
            )
            for which in ("k", "v")
        )
        if self.trained_scale:
            trained = Parameter("query_scale", (d,))(q)
            q = Multiply("query_scaled")(q, Activate("query_softplus", "softplus")(trained))
        within = Context(Positions("places")(q), relative=x)
        mixed = self.attend(within, d, q, k, v)
        joined = JoinSpans("joined", length)(self.merge(x, mixed))
        out: Tensor = self._matrix("o", x.shape[-1])(joined)
        return out, None

    def _cut(self, x: Tensor, which: str) -> Tensor:
        """Blocks [B n, s, H d] of queries, or of keys and values with those before them."""
        if self.pads_tokens:
            return x
        spans: Tensor = CutSpans(f"{which}_blocks", self.block, 0 if which == "q" else self.before)(x)
        return spans

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """The bias [B n, H, s, S] of distances, less what may not be seen."""
        x = cast("Tensor", context.relative)
        bias = super().own_bias(context, q, k, scale)
        if self.sinusoids:
            bias = self._of_distances(x, q, k)
        if bias is None:
            return None
        ahead = 0 if self.before else None
        masked: Tensor = MaskSpans("mask", x.shape[1], self.before, self.reach, ahead)(bias)
        return masked

    def _of_distances(self, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """q Wr s for each pair, [B n, H, s, S]."""
        width, d = x.shape[-1], q.shape[-1]
        distances = Distances("distances", self.before + 1, False)(Positions("order")(x))
        table = Sinusoid("sinusoid", width, pairing="half")(distances, q)
        placed = SplitHeads("r_heads", self.n_heads)(Linear("r_proj", self.n_heads * d)(table))
        scores = Einsum("distance_scores", "bthd,rhd->bhtr")(q, placed)
        bias: Tensor = SpanDistances("by_distance", k.shape[1])(scores)
        return bias

    def check(self) -> Iterator[Conflict]:
        """Conflicts: two sorts of distances, none at all, tokens before blocks of padded tokens."""
        yield from super().check()
        if self.sinusoids == isinstance(self.position, RelativeVector | RelativeKey):
            what = "scores go by distances: sinusoids, or a position of kind relative_vector"
            yield Conflict("block-distances", "position", what, "state one of the two")
        if self.pads_tokens and self.before:
            what = "tokens that are padded to blocks have none before them"
            yield Conflict("block-before", "before", what, "leave before out")
