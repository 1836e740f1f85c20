"""Contents and relative positions with scores of their own: disentangled attention, Transformer-XL's.

B batch, T tokens, D d_model, H heads, d head_dim, s buckets or distances to each side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, cast

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.grouped import MultiHeadAttention
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import NoPosition
from archcli.modules.spec.base import Conflict, Inline, Size
from archcli.modules.spec.context import Context, or_default
from archcli.ops import (
    Add,
    ByDistance,
    DisentangledBias,
    Distances,
    Einsum,
    LentLinear,
    Linear,
    Mask,
    Parameter,
    Sinusoid,
    SplitHeads,
)
from archcli.ops.attention.rotary import Pairing

Term = Literal["c2p", "p2c"]


class RelativeTable(Inline):
    """A trained vector for each relative position, [2 s, D], which all layers share.

    DeBERTa, arXiv:2006.03654. `size` s is the largest distance to either side. `norm` follows (DeBERTa 3).
    """

    group = "position_embedding"
    size: Size
    norm: Norm | None = None

    def forward(self, x: Tensor, *, name: str) -> Tensor:
        """The table [2 s, D] for tokens x [B, T, D]."""
        table: Tensor = Parameter(name, (2 * self.size, x.shape[-1]))(x)
        return table if self.norm is None else self.norm(table, name=f"{name}_norm")


class DisentangledAttention(MultiHeadAttention):
    """Scores (q_i k_j + q_i r_(i-j) + k_j s_(i-j)) * scale.

    He et al. 2020, arXiv:2006.03654 section 3.1: r and s are projections of relative positions, of which the
    stack states the table, `relative`. `terms` are those besides q k: c2p the first, p2c the second. `share`
    projects positions as contents are projected (DeBERTa 3), else by matrices of their own. `buckets` left
    out keeps one vector a distance; distances beyond `max_distance` share the last.
    """

    title: ClassVar[str] = "Disentangled attention"
    short_title: ClassVar[str] = "disentangled"
    kind: Literal["disentangled"] = "disentangled"  # type: ignore[assignment]
    terms: tuple[Term, ...] = ("c2p", "p2c")
    share: bool = False
    buckets: Size | None = None
    max_distance: Size = 512

    @property
    def relative_span(self) -> int:
        """The buckets or distances to each side."""
        return self.max_distance if self.buckets is None else self.buckets

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor:
        """The scores with positions, [B, H, T, T]."""
        table = cast("Tensor", context.relative)  # a stack without it is refused
        scores = []
        # c2p: contents as queries meet positions as keys; p2c the other way round
        pairs: tuple[tuple[Term, Literal["q", "k"], Tensor], ...] = (("c2p", "k", q), ("p2c", "q", k))
        for term, which, contents in pairs:
            if term in self.terms:
                placed = self._positions(table, which)
                scores.append(Einsum(term, "bthd,shd->bhts")(contents, placed))
        of_queries, of_keys = "c2p" in self.terms, "p2c" in self.terms
        bias: Tensor = DisentangledBias(
            "disentangled", self.relative_span, self.buckets, self.max_distance, scale, of_queries, of_keys
        )(*scores)
        return bias

    def _positions(self, table: Tensor, which: Literal["q", "k"]) -> Tensor:
        """The table as keys or queries, [2 s, H, d]."""
        width: Number = self.n_heads * self.width(table.shape[-1])
        if self.share:
            # the name of the attention's own projection: the tape lends the weight of that op
            op = Linear(f"{which}_proj", width, True)
            lent = [table.tape.weight(op, table, which=part) for part in ("weight", "bias")]
            projected = LentLinear(f"{which}_position")(table, *lent)
        else:
            projected = Linear(f"pos_{which}_proj", width, True)(table)
        split: Tensor = SplitHeads(f"{which}_position_heads", self.n_heads)(projected)
        return split

    def check(self) -> Iterator[Conflict]:
        """Conflicts: causal, no term, or shared projections without biases."""
        yield from super().check()
        if self.causal:
            yield Conflict(
                "disentangled-encoder", "causal", "disentangled attention sees all", "causal: false"
            )
        if self.blocks:
            yield Conflict("disentangled-blocks", "blocks", "its matrices are whole", "leave blocks out")
        if not self.terms:
            yield Conflict("disentangled-terms", "terms", "no term with positions", "use kind mha")
        if self.share and self.bias is not True and not {"q", "k"} <= set(self.bias or ()):
            yield Conflict(
                "disentangled-bias",
                "share",
                "shared projections of queries and keys have biases",
                "bias: true",
            )


class RelativeAttention(MultiHeadAttention):
    """Scores ((q_i + u) k_j + (q_i + v) Wr s_(i-j)) * scale, s the sinusoid of the distance.

    Transformer-XL, Dai et al. 2019, arXiv:1901.02860 section 3.3: u and v are trained vectors of each head,
    Wr [H d, D] projects the sinusoids of all distances between the visible tokens. Gopher and Chinchilla have
    it, and XLNet (arXiv:1906.08237), whose queries see all: distances to both sides. XLNet computes one
    distance more than pairs have, `spare_distance`, Conformers do not; their sinusoids are `interleaved`.
    """

    title: ClassVar[str] = "Attention with relative sinusoids"
    short_title: ClassVar[str] = "relative"
    kind: Literal["transformer_xl"] = "transformer_xl"  # type: ignore[assignment]
    spare_distance: bool = True
    pairing: Pairing = "half"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds k and v [B, n, H, d]."""
        # `attend` makes sinusoids as wide as the stream, and sees no more of it than this
        return super().forward(x, or_default(x, context)._replace(relative=x))

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
        """As softmax attention with q + u in place of q, and the scores of distances with q + v."""
        width, visible = cast("Tensor", context.relative).shape[-1], k.shape[1]
        distances = Distances("distances", visible, not self.causal, self.spare_distance)(context.positions)
        table = Sinusoid("sinusoid", width, pairing=self.pairing)(distances, q)
        placed = SplitHeads("r_heads", self.n_heads)(Linear("r_proj", self.n_heads * d_query)(table))
        of_distances = self._with_vector(q, "distance_bias")
        scores = Einsum("distance_scores", "bthd,rhd->bhtr")(of_distances, placed)
        content = self._with_vector(q, "content_bias")
        return super().attend(
            context._replace(relative=scores), d_query, content, k, v, name, mask, **optional
        )

    def _with_vector(self, q: Tensor, name: str) -> Tensor:
        """Queries plus a trained vector of each head."""
        added: Tensor = Add(f"{name}_add", meets=False)(q, Parameter(name, q.shape[-2:])(q))
        return added

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor:
        """The scores of distances at their queries and keys, [B, H, T, S]."""
        both = not self.causal and self.spare_distance
        by_distance = ByDistance("by_distance", k.shape[1], scale, both)
        bias: Tensor = by_distance(cast("Tensor", context.relative), context.positions)
        return bias

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a second way to know positions, or matrices of blocks."""
        yield from super().check()
        if self.position != NoPosition():
            what = "its scores know distances already"
            yield Conflict("transformer-xl-position", "position", what, "leave position out")
        if self.blocks:
            yield Conflict("transformer-xl-blocks", "blocks", "its matrices are whole", "leave blocks out")
