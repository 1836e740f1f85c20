"""Relative positions on attention scores: biases of buckets (T5), of profiles, vectors (Shaw)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, is_one, prod
from archcli.graph import Op, Part
from archcli.graph.kept import BOOL, INT64, Call, In, Kept, New
from archcli.ops.base import contraction, elementwise, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class RelativeBias(Op):
    """bias[1, h, i, j] = table[bucket(key j - query i), h] with a table [n_buckets, H].

    Input: positions [T] of the queries, for S keys up to the newest. T5, arXiv:1910.10683 section 2.1: up to
    half of a direction's buckets hold one distance each, the rest grow logarithmically to `max_distance`. A
    gather: no FLOPs forward; backward adds every pair's gradient to its bucket.
    """

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

    def kept(self, call: Call, positions: Shape) -> tuple[Kept, ...]:
        """The bucket of every pair."""
        return (New(positions[0] * self.visible, INT64),)

    def widths(self, call: Call, positions: Shape) -> tuple[Number, ...]:
        return (call.width,)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        keys = positions[-1] + 1 - self.visible + torch.arange(self.visible, device=positions.device)
        bucket = self._bucket(torch, keys[None, :] - positions[:, None])
        return weights["weight"][bucket].permute(2, 0, 1)[None]

    def _bucket(self, torch: Any, distance: Any) -> Any:
        """The bucket of key position minus query position."""
        buckets, offset = self.n_buckets, 0
        if self.bidirectional:
            buckets //= 2
            offset = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        growth = (distance.float().clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return torch.where(distance < exact, distance, far) + offset


@dataclass(frozen=True, slots=True, eq=False)
class RelativeKeys(Op):
    """bias[b, h, i, j] = scale * q[b, i, h] . a[clip(j - i, -k, k) + k], a trained table [2k + 1, d].

    Inputs q [B, T, H, d], positions [T]; S keys up to the newest. Shaw et al. 2018, arXiv:1803.02155 section
    3.2: a relative vector added to the key. Computed as one product of queries and table, then a gather by
    distance.
    """

    name: str
    reach: int
    visible: Number
    scale: float

    def shape(self, q: Shape, positions: Shape) -> Shape:
        return (q[0], q[2], q[1], self.visible)

    def weights(self, q: Shape, positions: Shape) -> dict[str, Shape]:
        return {"weight": (2 * self.reach + 1, q[3])}

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        entries = 2 * self.reach + 1
        scores, pairs, index = prod(q[:3]) * entries, prod(self.shape(q, positions)), q[1] * self.visible
        product = contraction("matmul", 2 * scores * q[3], [(prod(q), 0), (entries * q[3], "weight")], scores)
        return (
            product,
            elementwise("scale", scores),
            movement("gather", pairs + index, pairs, (summed(0, pairs, scores, index=index),)),
        )

    def kept(self, call: Call, q: Shape, positions: Shape) -> tuple[Kept, ...]:
        """q by head, the distance of every pair, and whole scores, of which gather needs the sizes alone."""
        scores = prod(q[:3]) * (2 * self.reach + 1)
        gathered = (New(q[1] * self.visible, INT64), New(scores, call.widths[0]))
        return (*_by_head(call, q), *gathered)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        keys = positions[-1] + 1 - self.visible + torch.arange(self.visible, device=positions.device)
        index = (keys[None, :] - positions[:, None]).clamp(-self.reach, self.reach) + self.reach
        scores = (q.transpose(1, 2) @ weights["weight"].t()) * self.scale
        return scores.gather(-1, index.expand(*scores.shape[:2], *index.shape))


@dataclass(frozen=True, slots=True, eq=False)
class RelativeProfiles(Op):
    """bias[b, h, i, j] = r[b, i, h] . p[i - j], a trained table [R, E]; 0 where j lies E or more back.

    Inputs r [B, T, H, R], of each query, and positions [T]; S keys up to the newest. A column of the table is
    a distance, a row a profile of biases over all distances, of which r is a mixture (Inkling). Computed as
    one product of r and table, then a gather by distance.
    """

    name: str
    extent: Number
    visible: Number

    def shape(self, r: Shape, positions: Shape) -> Shape:
        return (r[0], r[2], r[1], self.visible)

    def weights(self, r: Shape, positions: Shape) -> dict[str, Shape]:
        return {"weight": (r[3], self.extent)}

    def parts(self, r: Shape, positions: Shape) -> tuple[Part, ...]:
        entries = prod(r[:3]) * self.extent
        pairs, index = prod(self.shape(r, positions)), r[1] * self.visible
        table = (r[3] * self.extent, "weight")
        product = contraction("matmul", 2 * entries * r[3], [(prod(r), 0), table], entries)
        gathered = movement("gather", pairs + index, pairs, (summed(0, pairs, entries, index=index),))
        return (product, gathered)

    def kept(self, call: Call, r: Shape, positions: Shape) -> tuple[Kept, ...]:
        """r by head, distances, whole biases, of which gather needs the sizes alone, and pairs too far."""
        biases, pairs = prod(r[:3]) * self.extent, r[1] * self.visible
        gathered = (New(pairs, INT64), New(biases, call.widths[0]), New(pairs, BOOL))
        return (*_by_head(call, r), *gathered)

    def run(self, torch: Any, weights: dict[str, Any], r: Any, positions: Any) -> Any:
        keys = positions[-1] + 1 - self.visible + torch.arange(self.visible, device=positions.device)
        distance = positions[:, None] - keys[None, :]
        biases = r.transpose(1, 2) @ weights["weight"]
        index = distance.clamp(0, self.extent - 1)
        near = biases.gather(-1, index.expand(*biases.shape[:2], *index.shape))
        return near.masked_fill((distance < 0) | (distance >= self.extent), 0.0)


def _by_head(call: Call, x: Shape) -> tuple[Kept, ...]:
    """What the gradient of a table reads of x [B, T, H, d]: x with heads before tokens."""
    if not call.trained:
        return ()
    return (In(0) if is_one(x[1]) or is_one(x[2]) else New(prod(x), call.widths[0]),)
