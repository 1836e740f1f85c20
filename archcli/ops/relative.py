"""RelativeBias: a table looked up by the bucket of each query-key distance (T5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape
from archcli.graph import Op, OpClass, Part


@dataclass(frozen=True, slots=True)
class RelativeBias(Op):
    """bias[1, h, i, j] = table[bucket(key j - query i), h], table [n_buckets, H]; positions [T] of the queries, S keys up to the newest.

    T5, arXiv:1910.10683 section 2.1: up to half of a direction's buckets hold one distance each, the rest grow
    logarithmically to `max_distance`. A gather: no FLOPs.
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
        back = Part("d_table", OpClass.MOVEMENT, 0, moved, self.n_buckets * self.heads, wrt="weight")
        return (Part("gather", OpClass.MOVEMENT, 0, moved + pairs, moved, (back,)),)

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
