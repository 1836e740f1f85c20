"""Ops on tables of places: tables resized to another grid, and coordinates of patches.

h and w rows and columns of a grid, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape
from archcli.graph import Op
from archcli.ops.base import elementwise

Resampling = Literal["bicubic", "bilinear"]
PER_ELEMENT = {"bicubic": 35, "bilinear": 9}
"""FLOPs of an element: along one axis k products and k - 1 sums for k taps (4 or 2), k times; then once."""


@dataclass(frozen=True, slots=True, eq=False)
class ResizeTable(Op):
    """A table [n + h w, D] of n leading vectors and a grid, to another grid: [n + h' w', D].

    The vectors of places are interpolated, those in front stay as they are.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "resize"
    name: str
    before: tuple[Number, Number]
    after: tuple[Number, Number]
    leading: int = 0
    mode: Resampling = "bicubic"
    antialias: bool = False

    def shape(self, table: Shape) -> Shape:
        return (self.leading + self.after[0] * self.after[1], table[1])

    def parts(self, table: Shape) -> tuple[Any, ...]:
        return (elementwise("resize", self.after[0] * self.after[1] * table[1], PER_ELEMENT[self.mode]),)

    def run(self, torch: Any, weights: dict[str, Any], table: Any) -> Any:
        front, rest = table[: self.leading], table[self.leading :]
        grid = rest.reshape(1, *self.before, table.shape[1]).permute(0, 3, 1, 2)
        options = {"mode": self.mode, "align_corners": False, "antialias": self.antialias}
        resized = torch.nn.functional.interpolate(grid, size=self.after, **options)
        places = resized.permute(0, 2, 3, 1).reshape(-1, table.shape[1])
        return torch.cat((front, places), dim=0) if self.leading else places
