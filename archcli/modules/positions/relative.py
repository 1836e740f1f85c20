"""Relative positions: a number added to each attention score, or a trained vector on the keys.

T new tokens, S visible tokens, H query heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.positions.position import Position
from archcli.modules.spec.base import Conflict, Count, Inline, Size
from archcli.ops import ClippedBias, RelativeBias, RelativeKeys, RelativeVectors


class ScoreBias(Inline):
    """A bias on the score of query i and key j, per head."""

    family: ClassVar[str] = "score_bias"
    group: ClassVar[str] = "relative_attention_bias"

    @property
    def blocks_of(self) -> Number | None:
        """How many tokens each of further keys sums, which have biases too; None without such keys."""
        return None

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, H, T, S]."""
        raise NotImplementedError


class RelativeBuckets(ScoreBias):
    """table[bucket(j - i), h]: near distances have a bucket each, far ones share logarithmically.

    T5, arXiv:1910.10683 section 2.1.

    `bidirectional` gives half the buckets to each direction (an encoder), else all look back (a decoder).
    Distances of `max_distance` and more share the last bucket.
    """

    kind: Literal["buckets"] = "buckets"
    n_buckets: Size = 32
    max_distance: Size = 128
    bidirectional: bool = False

    def check(self) -> Iterator[Conflict]:
        """Conflicts: too few buckets for near and far distances in each direction."""
        yield from bucket_conflicts(self.n_buckets, self.max_distance, bidirectional=self.bidirectional)

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, H, T, S]."""
        op = RelativeBias(name, self.n_buckets, n_heads, visible, self.max_distance, self.bidirectional)
        bias: Tensor = op(positions)
        return bias


def bucket_conflicts(n_buckets: int, max_distance: int, *, bidirectional: bool) -> Iterator[Conflict]:
    """Conflicts of numbers of buckets and distances."""
    # half of a direction's buckets hold one near distance each (T5)
    near = n_buckets // (4 if bidirectional else 2)
    if near == 0:
        least = 4 if bidirectional else 2
        yield Conflict(
            "buckets-too-few",
            "n_buckets",
            f"n_buckets {n_buckets} has none for far distances",
            f"{least} at least",
        )
    elif max_distance <= near:
        yield Conflict(
            "max-distance-too-near",
            "max_distance",
            f"max_distance {max_distance} is among the {near} near ones",
            f"{near + 1} at least",
        )


class DistanceBias(ScoreBias):
    """table[clip(j - i), h]: a number for each distance up to `max_distance`, and for each head.

    Phi-4-multimodal. `symmetric` goes by |j - i|, with half the table.
    """

    kind: Literal["distances"] = "distances"
    max_distance: Size
    symmetric: bool = False

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, H, T, S]."""
        bias: Tensor = ClippedBias(name, n_heads, visible, self.max_distance, self.symmetric)(positions)
        return bias


class LayerBuckets(Position):
    """The bias of `RelativeBuckets` with a table for each layer. UMT5, arXiv:2304.09151.

    `n_buckets`, `max_distance` and `bidirectional` mean what they mean there.
    """

    acts_on = "scores"
    shares_bias: ClassVar[bool] = True
    kind: Literal["buckets"] = "buckets"
    n_buckets: Size = 32
    max_distance: Size = 128
    bidirectional: bool = False

    def check(self) -> Iterator[Conflict]:
        """Conflicts: too few buckets for near and far distances in each direction."""
        yield from bucket_conflicts(self.n_buckets, self.max_distance, bidirectional=self.bidirectional)

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor:
        """The bias [1, H, T, S]."""
        op = RelativeBias(
            "score_bias", self.n_buckets, q.shape[2], visible, self.max_distance, self.bidirectional
        )
        bias: Tensor = op(positions, group=RelativeBuckets.group)
        return bias


class RelativeKey(Position):
    """A trained vector per clipped distance is added to the key: score (q . (k_j + a_(j-i))).

    Shaw et al. 2018, arXiv:1803.02155.

    Distances beyond `max_distance` k share a vector: 2k + 1 vectors of head_dim, shared by the heads of a
    layer.
    """

    acts_on = "keys"
    kind: Literal["shaw"] = "shaw"
    max_distance: Size

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor:
        """scale q . a, for every query and key."""
        # `scale`, as the bias is added to scores that are scaled already
        bias: Tensor = RelativeKeys("relative_keys", self.max_distance, visible, scale)(
            q, positions, group=self.group
        )
        return bias


class RelativeVector(Position):
    """A trained vector per clipped distance is added to the key, as in `RelativeKey`: other costs.

    Shaw et al. 2018, arXiv:1803.02155. Distances reach from `left` behind the query to `right` ahead of it:
    left + right + 1 vectors of head_dim. A vector is looked up for each pair, and multiplied with its query
    (Granite Speech, w2v-BERT 2.0).
    """

    acts_on = "keys"
    kind: Literal["relative_vector"] = "relative_vector"
    left: Count
    right: Count

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor:
        """scale q . a, for every query and key."""
        bias: Tensor = RelativeVectors("relative_vectors", self.left, self.right, visible, scale)(
            q, positions, group=self.group
        )
        return bias
