"""Ops on windows of a grid: cut it into windows, and put it together.

B batch, h and w rows and columns, s side of a window, W windows of a grid, C channels, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Op, Part
from archcli.ops.base import movement


@dataclass(frozen=True, slots=True, eq=False)
class CutWindows(Op):
    """[B, h, w, C] to [B W, s s, C]: windows of s x s places, padded with zeros to whole ones."""

    drawn: ClassVar[str] = "view"
    name: str
    side: Number

    def shape(self, x: Shape) -> Shape:
        windows = ceil_div(x[1], self.side) * ceil_div(x[2], self.side)
        return (x[0] * windows, self.side * self.side, x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("windows", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        s, (b, h, w, c) = self.side, x.shape
        down, right = -h % s, -w % s
        padded = torch.nn.functional.pad(x, (0, 0, 0, right, 0, down)) if down or right else x
        cut = padded.view(b, (h + down) // s, s, (w + right) // s, s, c).transpose(2, 3)
        return cut.reshape(-1, s * s, c)


@dataclass(frozen=True, slots=True, eq=False)
class JoinWindows(Op):
    """[B W, s s, C] to [B, h, w, C]: the grid of these windows, without what was padded."""

    drawn: ClassVar[str] = "view"
    name: str
    grid: tuple[Number, Number]
    side: Number

    def shape(self, x: Shape) -> Shape:
        windows = ceil_div(self.grid[0], self.side) * ceil_div(self.grid[1], self.side)
        return (x[0] // windows, *self.grid, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("grid", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        s, (h, w) = self.side, self.grid
        rows, columns = -(-h // s), -(-w // s)
        cut = x.view(-1, rows, columns, s, s, x.shape[2]).transpose(2, 3)
        joined = cut.reshape(-1, rows * s, columns * s, x.shape[2])
        return joined[:, :h, :w].contiguous()
