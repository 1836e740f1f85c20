"""Query temperature: a factor that grows with the position, for attention over long contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Shape, prod
from archcli.graph import Op, Part, Workspace
from archcli.graph.kept import FP32, Call, Kept, New
from archcli.ops.base import elementwise


@dataclass(frozen=True, slots=True, eq=False)
class QueryTemperature(Op):
    """q * (1 + scale * ln(1 + floor((position + first) / floor_scale))): q [B, T, H, d], positions [T].

    `first` is what the first token counts as: 1 in Llama 4, 0 in Ministral 3. `power` is the factor
    (1 + (position + first) / floor_scale)^scale, `above` 1 + scale * ln(max(1, (position + first) /
    floor_scale)).
    """

    name: str
    scale: float
    floor_scale: int
    first: int = 1
    power: bool = False
    above: bool = False

    def shape(self, q: Shape, positions: Shape) -> Shape:
        return q

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        return (elementwise("temper", prod(q)),)

    def kept(self, call: Call, q: Shape, positions: Shape) -> tuple[Kept, ...]:
        return (New(prod(positions), FP32),)

    def space(self, call: Call, q: Shape, positions: Shape) -> Workspace:
        """The product in fp32, before it is rounded; steps and factors."""
        return Workspace((0 if call.in_fp32 else FP32 * prod(q)) + 2 * FP32 * prod(positions))

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        steps = (positions.float() + self.first) / self.floor_scale
        if self.power:
            factor = torch.exp(torch.log1p(steps) * self.scale)
        elif self.above:
            factor = torch.log(steps.clamp(min=1.0)) * self.scale + 1.0
        else:
            factor = torch.log1p(torch.floor(steps)) * self.scale + 1.0
        return (q * factor[:, None, None]).to(q.dtype)
