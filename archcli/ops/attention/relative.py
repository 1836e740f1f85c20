"""Relative positions on scores: buckets (T5), vectors (Shaw), sinusoids (Transformer-XL), DeBERTa's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Traits
from archcli.ops.attention.mask import key_positions
from archcli.ops.base import bias, contraction, elementwise, movement, summed

BIASED = Traits(marks=("relative bias",))
"""What is said of each bias on scores that goes by the distance of query and key."""


@dataclass(frozen=True, slots=True, eq=False)
class RelativeBias(Op):
    """bias[1, h, i, j] = table[bucket(key j - query i), h] with a table [n_buckets, H].

    Input: positions [T] of the queries, for S keys up to the newest. T5, arXiv:1910.10683 section 2.1: up to
    half of a direction's buckets hold one distance each, the rest grow logarithmically to `max_distance`. A
    gather: no FLOPs forward; backward adds every pair's gradient to its bucket.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    n_buckets: int
    heads: Number
    visible: Number
    max_distance: int
    bidirectional: bool

    def shape(self, positions: Shape) -> Shape:
        return (1, self.heads, positions[0], self.visible)

    def weights(self, positions: Shape) -> dict[str, Shape]:
        return {"weight": (self.n_buckets, self.heads)}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        pairs = positions[0] * self.visible
        moved = pairs * self.heads
        return (
            movement(
                "gather",
                moved + pairs,
                moved,
                (summed("weight", moved, self.n_buckets * self.heads, index=pairs),),
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        bucket = self._bucket(torch, keys[None, :] - positions[:, None])
        return weights["weight"][bucket].permute(2, 0, 1)[None]

    def _bucket(self, torch: Any, distance: Any) -> Any:
        """The bucket of key position minus query position."""
        buckets, offset = self.n_buckets, 0
        if self.bidirectional:
            # later keys have the second half of the buckets
            buckets //= 2
            offset = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        # clamped, as log(0) is not finite; `where` takes near distances as they are
        growth = (distance.float().clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return torch.where(distance < exact, distance, far) + offset


@dataclass(frozen=True, slots=True, eq=False)
class ClippedBias(Op):
    """bias[1, h, i, j] = table[clip(key j - query i, -k, k - 1) + k, h] with a table [2 k, H].

    Input: positions [T] of the queries, for S keys up to the newest. `symmetric` takes |j - i| and k rows.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    heads: Number
    visible: Number
    reach: int
    symmetric: bool = False

    def shape(self, positions: Shape) -> Shape:
        return (1, self.heads, positions[0], self.visible)

    def weights(self, positions: Shape) -> dict[str, Shape]:
        return {"weight": (self.reach if self.symmetric else 2 * self.reach, self.heads)}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        pairs = positions[0] * self.visible
        moved, table = pairs * self.heads, prod(self.weights(positions)["weight"])
        return (movement("gather", moved + pairs, moved, (summed("weight", moved, table, index=pairs),)),)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        distance = (keys[None, :] - positions[:, None]).clamp(-self.reach, self.reach - 1)
        index = distance.abs().clamp(max=self.reach - 1) if self.symmetric else distance + self.reach
        return weights["weight"][index].permute(2, 0, 1)[None]


@dataclass(frozen=True, slots=True, eq=False)
class RelativeKeys(Op):
    """bias[b, h, i, j] = scale * q[b, i, h] . a[clip(j - i, -k, k) + k], a trained table [2k + 1, d].

    Inputs q [B, T, H, d], positions [T]; S keys up to the newest. Shaw et al. 2018, arXiv:1803.02155 section
    3.2: a relative vector added to the key. Computed as one product of queries and table, then a gather by
    distance.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    reach: int
    visible: Number
    scale: float

    def shape(self, q: Shape, positions: Shape) -> Shape:
        return (q[0], q[2], q[1], self.visible)

    def weights(self, q: Shape, positions: Shape) -> dict[str, Shape]:
        return {"weight": (2 * self.reach + 1, q[3])}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        entries = 2 * self.reach + 1
        scores, pairs, index = prod(q[:3]) * entries, prod(self.shape(q, positions)), q[1] * self.visible
        product = contraction("matmul", 2 * scores * q[3], [(prod(q), 0), (entries * q[3], "weight")], scores)
        return (
            product,
            elementwise("scale", scores),
            movement("gather", pairs + index, pairs, (summed(0, pairs, scores, index=index),)),
        )

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        index = (keys[None, :] - positions[:, None]).clamp(-self.reach, self.reach) + self.reach
        # all rows of the table, then a gather: no tensor [T, S, d] of a vector for each pair
        scores = (q.transpose(1, 2) @ weights["weight"].t()) * self.scale
        return scores.gather(-1, index.expand(*scores.shape[:2], *index.shape))


@dataclass(frozen=True, slots=True, eq=False)
class RelativeVectors(Op):
    """bias[b, h, i, j] = scale * q[b, i, h] . a[clip(j - i, -left, right) + left], a trained table.

    The table is [left + right + 1, d]. Inputs q [B, T, H, d], positions [T]; S keys up to the newest. As
    `RelativeKeys`, computed as a gather of a vector for each pair and a product with it: of the table's
    rows those alone that pairs need.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    left: int
    right: int
    visible: Number
    scale: float

    def shape(self, q: Shape, positions: Shape) -> Shape:
        return (q[0], q[2], q[1], self.visible)

    def weights(self, q: Shape, positions: Shape) -> dict[str, Shape]:
        return {"weight": (self.left + self.right + 1, q[3])}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        pairs, scores = q[1] * self.visible, prod(self.shape(q, positions))
        vectors, table = pairs * q[3], (self.left + self.right + 1) * q[3]
        gathered = movement(
            "gather", vectors + pairs, vectors, (summed("weight", vectors, table, index=pairs),)
        )
        product = contraction("matmul", 2 * scores * q[3], [(prod(q), 0), (vectors, "weight")], scores)
        return (gathered, product, elementwise("scale", scores))

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        index = (keys[None, :] - positions[:, None]).clamp(-self.left, self.right) + self.left
        return torch.einsum("bihd,ijd->bhij", q, weights["weight"][index]) * self.scale


@dataclass(frozen=True, slots=True, eq=False)
class RelativeProfiles(Op):
    """bias[b, h, i, j] = r[b, i, h] . p[i - j], a trained table [R, E]; 0 where j lies E or more back.

    Inputs r [B, T, H, R], of each query, and positions [T]; S keys up to the newest. A column of the table is
    a distance, a row a profile of biases over all distances, of which r is a mixture (Inkling). Computed as
    one product of r and table, then a gather by distance.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    extent: Number
    visible: Number

    def shape(self, r: Shape, positions: Shape) -> Shape:
        return (r[0], r[2], r[1], self.visible)

    def weights(self, r: Shape, positions: Shape) -> dict[str, Shape]:
        return {"weight": (r[3], self.extent)}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, r: Shape, positions: Shape) -> tuple[Part, ...]:
        entries = prod(r[:3]) * self.extent
        pairs, index = prod(self.shape(r, positions)), r[1] * self.visible
        table = (r[3] * self.extent, "weight")
        product = contraction("matmul", 2 * entries * r[3], [(prod(r), 0), table], entries)
        gathered = movement("gather", pairs + index, pairs, (summed(0, pairs, entries, index=index),))
        return (product, gathered)

    def run(self, torch: Any, weights: dict[str, Any], r: Any, positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        distance = positions[:, None] - keys[None, :]
        biases = r.transpose(1, 2) @ weights["weight"]
        index = distance.clamp(0, self.extent - 1)
        near = biases.gather(-1, index.expand(*biases.shape[:2], *index.shape))
        return near.masked_fill((distance < 0) | (distance >= self.extent), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Distances(Op):
    """The distances of T queries from S visible keys, the largest first: [S], or [T + S] to both sides.

    Input: positions [T]. A query lies i - j behind key j: from S - 1 down to 0, or from S down to 1 - T;
    without the `spare` one, which no pair has, from S - 1.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    visible: Number
    both_sides: bool
    spare: bool = True
    zero_cost_reason: ClassVar[str] = "a range of numbers"

    def shape(self, positions: Shape) -> Shape:
        both = self.visible + positions[0] - (0 if self.spare else 1)
        return (both if self.both_sides else self.visible,)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        if self.both_sides:
            largest = self.visible if self.spare else self.visible - 1
            return torch.arange(largest, -positions.shape[0], -1, device=positions.device)
        return torch.arange(self.visible - 1, -1, -1, device=positions.device)


@dataclass(frozen=True, slots=True, eq=False)
class ByDistance(Op):
    """bias[b, h, i, j] = scale * s[b, h, i, n] with n the place of i - j among the distances.

    Inputs: scores of queries with distances s [B, H, T, R], the largest first, and positions [T]; S keys up
    to the newest. Dai et al. 2019, arXiv:1901.02860 appendix B: a shift of each row there, a gather here.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    visible: Number
    scale: float
    both_sides: bool

    def shape(self, scores: Shape, positions: Shape) -> Shape:
        return (*scores[:3], self.visible)

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, scores: Shape, positions: Shape) -> tuple[Part, ...]:
        pairs, index = prod(self.shape(scores, positions)), scores[2] * self.visible
        back = summed(0, pairs, prod(scores), index=index)
        return (movement("gather", pairs + index, pairs, (back,)), elementwise("scale", pairs))

    def run(self, torch: Any, weights: dict[str, Any], scores: Any, positions: Any) -> Any:
        keys = key_positions(torch, positions, self.visible)
        largest = self.visible if self.both_sides else self.visible - 1
        index = (largest - positions[:, None] + keys[None, :]).clamp(0, scores.shape[-1] - 1)
        return scores.gather(-1, index.expand(*scores.shape[:2], *index.shape)) * self.scale


@dataclass(frozen=True, slots=True, eq=False)
class LentLinear(Op):
    """y = x W^T + b with a weight and a bias of another operation: inputs x, W [out, in], b [out]."""

    drawn: ClassVar[str] = "matrix"
    name: str

    def shape(self, x: Shape, weight: Shape, lent: Shape) -> Shape:
        return (*x[:-1], weight[0])

    def parts(self, x: Shape, weight: Shape, lent: Shape) -> tuple[Part, ...]:
        out = prod(x[:-1]) * weight[0]
        product = contraction("matmul", 2 * prod(x) * weight[0], [(prod(x), 0), (prod(weight), 1)], out)
        return (product, replace(bias(out, weight[0]), backward=(summed(2, out, weight[0]),)))

    def run(self, torch: Any, weights: dict[str, Any], x: Any, weight: Any, lent: Any) -> Any:
        return torch.nn.functional.linear(x, weight, lent)


@dataclass(frozen=True, slots=True, eq=False)
class DisentangledBias(Op):
    """bias[b, h, i, j] = scale * (c2p[b, h, i, n] + p2c[b, h, j, n]) with n the bucket of i - j.

    Inputs: scores of queries with positions c2p [B, H, T, 2s] where `of_queries`, and of keys with positions
    p2c [B, H, T, 2s] where `of_keys`. s is the number of buckets, or without them the largest distance. He et
    al. 2020, arXiv:2006.03654 section 3.1; buckets arXiv:2111.09543: the nearest half one distance each, the
    rest logarithmically up to `max_distance`.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    span: int
    buckets: int | None
    max_distance: int
    scale: float
    of_queries: bool
    of_keys: bool

    def shape(self, *scores: Shape) -> Shape:
        b, h, t, _ = scores[0]
        return (b, h, t, t)

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, *scores: Shape) -> tuple[Part, ...]:
        pairs, index = prod(self.shape(*scores)), scores[0][2] * scores[0][2]
        gathers = tuple(
            movement(f"gather_{i}", pairs + index, pairs, (summed(i, pairs, prod(shape), index=index),))
            for i, shape in enumerate(scores)
        )
        both = self.of_queries and self.of_keys
        added = (Part("sum", OpClass.ELEMENTWISE, pairs, 2 * pairs, pairs),) if both else ()
        return (*gathers, elementwise("scale", pairs), *added)

    def run(self, torch: Any, weights: dict[str, Any], *scores: Any) -> Any:
        places, tables = torch.arange(scores[0].shape[2], device=scores[0].device), iter(scores)
        # distances from -span to span have 2 span entries: the largest shares the last one, as in the class
        index = (self._bucket(torch, places[:, None] - places[None, :]) + self.span).clamp(
            0, 2 * self.span - 1
        )
        index = index.expand(*scores[0].shape[:2], *index.shape)
        total = 0.0
        if self.of_queries:
            total = total + next(tables).gather(-1, index)
        if self.of_keys:
            total = total + next(tables).gather(-1, index.transpose(-1, -2)).transpose(-1, -2)
        return total * self.scale

    def _bucket(self, torch: Any, distance: Any) -> Any:
        """The bucket of query position minus key position."""
        if self.buckets is None:
            return distance
        near, far = self.buckets // 2, distance.abs().clamp(min=1)
        growth = (far.float() / near).log() / math.log((self.max_distance - 1) / near)
        # make_log_bucket_position of DeBERTa's code: ceil and max_distance - 1, where T5 truncates
        bucket = (growth * (near - 1)).ceil().long() + near
        return torch.where(distance.abs() <= near, distance, bucket * distance.sign())
