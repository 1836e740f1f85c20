"""Query temperature: a factor that grows with the position, for attention over long contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Shape, prod
from archcli.graph import Op, Part
from archcli.ops.base import elementwise


@dataclass(frozen=True, slots=True, eq=False)
class QueryTemperature(Op):
    """q * (1 + scale * ln(1 + floor((position + 1) / floor_scale))): q [B, T, H, d], positions [T].

    Llama 4's NoPE layers.
    """

    name: str
    scale: float
    floor_scale: int

    def shape(self, q: Shape, positions: Shape) -> Shape:
        return q

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        return (elementwise("temper", prod(q)),)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        steps = torch.floor((positions.float() + 1.0) / self.floor_scale)
        return (q * (torch.log1p(steps) * self.scale + 1.0)[:, None, None]).to(q.dtype)
