"""Disentangled positions: scores of contents with positions, looked up by distance (DeBERTa)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import INT64, Call, In, Kept, New
from archcli.ops.base import bias, contraction, elementwise, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class LentLinear(Op):
    """y = x W^T + b with a weight and a bias of another operation: inputs x, W [out, in], b [out]."""

    name: str

    def shape(self, x: Shape, weight: Shape, lent: Shape) -> Shape:
        return (*x[:-1], weight[0])

    def parts(self, x: Shape, weight: Shape, lent: Shape) -> tuple[Part, ...]:
        out = prod(x[:-1]) * weight[0]
        product = contraction("matmul", 2 * prod(x) * weight[0], [(prod(x), 0), (prod(weight), 1)], out)
        return (product, replace(bias(out, weight[0]), backward=(summed(2, out, weight[0]),)))

    def kept(self, call: Call, x: Shape, weight: Shape, lent: Shape) -> tuple[Kept, ...]:
        return tuple(In(i) for i in (0, 1) if call.grads[1 - i])

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

    def parts(self, *scores: Shape) -> tuple[Part, ...]:
        pairs, index = prod(self.shape(*scores)), scores[0][2] * scores[0][2]
        gathers = tuple(
            movement(f"gather_{i}", pairs + index, pairs, (summed(i, pairs, prod(shape), index=index),))
            for i, shape in enumerate(scores)
        )
        both = self.of_queries and self.of_keys
        added = (Part("sum", OpClass.ELEMENTWISE, pairs, 2 * pairs, pairs),) if both else ()
        return (*gathers, elementwise("scale", pairs), *added)

    def kept(self, call: Call, *scores: Shape) -> tuple[Kept, ...]:
        """The bucket of each pair, and whole scores, of which torch's gather needs the sizes alone."""
        read = [In(i) for i in range(len(scores)) if call.grads[i]]
        return (New(scores[0][2] * scores[0][2], INT64), *read)

    def strides(self, call: Call, *scores: Shape) -> tuple[bool, ...]:
        return (not self.of_queries,)

    def run(self, torch: Any, weights: dict[str, Any], *scores: Any) -> Any:
        places, given = torch.arange(scores[0].shape[2], device=scores[0].device), iter(scores)
        index = (self._bucket(torch, places[:, None] - places[None, :]) + self.span).clamp(
            0, 2 * self.span - 1
        )
        index = index.expand(*scores[0].shape[:2], *index.shape)
        total = 0.0
        if self.of_queries:
            total = total + next(given).gather(-1, index)
        if self.of_keys:
            total = total + next(given).gather(-1, index.transpose(-1, -2)).transpose(-1, -2)
        return total * self.scale

    def _bucket(self, torch: Any, distance: Any) -> Any:
        """The bucket of query position minus key position."""
        if self.buckets is None:
            return distance
        near, far = self.buckets // 2, distance.abs().clamp(min=1)
        growth = (far.float() / near).log() / math.log((self.max_distance - 1) / near)
        bucket = (growth * (near - 1)).ceil().long() + near
        return torch.where(distance.abs() <= near, distance, bucket * distance.sign())
