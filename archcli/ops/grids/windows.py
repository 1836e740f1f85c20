"""Ops on windows of a grid: cut it into windows, put it together, mask what a shift brought together.

B batch, h and w rows and columns, s side of a window, W windows of a grid, C channels, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import movement

APART = -100.0
"""What the score of two places that a shift brought together loses; Swin's code."""


def _moved(torch: Any, x: Any, by: int) -> Any:
    """A grid x [B, h, w, C] moved by so many rows and columns, around its borders."""
    # one axis at a time: torch's roll of two calls itself for each, which a trace shows as more operations
    return torch.roll(torch.roll(x, (by,), (1,)), (by,), (2,))


@dataclass(frozen=True, slots=True, eq=False)
class CutWindows(Op):
    """[B, h, w, C] to [B W, s s, C]: windows of s x s places, padded with zeros to whole ones.

    The grid is first moved up and left by `shift`, around its borders.
    """

    drawn: ClassVar[str] = "view"
    name: str
    side: Number
    shift: int = 0

    def shape(self, x: Shape) -> Shape:
        windows = ceil_div(x[1], self.side) * ceil_div(x[2], self.side)
        return (x[0] * windows, self.side * self.side, x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("windows", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        s, (b, h, w, c) = self.side, x.shape
        down, right = -h % s, -w % s
        padded = torch.nn.functional.pad(x, (0, 0, 0, right, 0, down)) if down or right else x
        moved = _moved(torch, padded, -self.shift) if self.shift else padded
        cut = moved.view(b, (h + down) // s, s, (w + right) // s, s, c).transpose(2, 3)
        return cut.reshape(-1, s * s, c)


@dataclass(frozen=True, slots=True, eq=False)
class JoinWindows(Op):
    """[B W, s s, C] to [B, h, w, C]: the grid of these windows, moved back and without what was padded."""

    drawn: ClassVar[str] = "view"
    name: str
    grid: tuple[Number, Number]
    side: Number
    shift: int = 0

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
        back = _moved(torch, joined, self.shift) if self.shift else joined
        return back[:, :h, :w].contiguous()


@dataclass(frozen=True, slots=True, eq=False)
class MaskShifted(Op):
    """bias [1, H, T, T] for each window [B W, H, T, T], less where a shift brought two places together.

    A second input [B W, T, …] says how many windows there are. `grid` is the padded one.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    grid: tuple[Number, Number]
    side: int
    shift: int

    def shape(self, bias: Shape, windows: Shape) -> Shape:
        return (windows[0], *bias[1:])

    def parts(self, bias: Shape, windows: Shape) -> tuple[Part, ...]:
        n = prod(self.shape(bias, windows))
        back = Part("d_0", OpClass.ELEMENTWISE, n, n, prod(bias), wrt=0)
        return (Part("mask", OpClass.ELEMENTWISE, n, prod(bias), n, (back,)),)

    def run(self, torch: Any, weights: dict[str, Any], bias: Any, windows: Any) -> Any:
        s, (h, w) = self.side, (int(self.grid[0]), int(self.grid[1]))
        parts = []
        for n in (h, w):
            place = torch.arange(n, device=bias.device)
            # three parts: whole windows, the last window's own rows, and those from the other border
            parts.append((place >= n - s).long() + (place >= n - self.shift).long())
        region = parts[0][:, None] * 3 + parts[1][None, :]
        cut = region.view(h // s, s, w // s, s).transpose(1, 2).reshape(-1, s * s)
        apart = cut[:, :, None] != cut[:, None, :]
        mask = torch.zeros(apart.shape, dtype=bias.dtype, device=bias.device).masked_fill(apart, APART)
        repeats = windows.shape[0] // mask.shape[0]
        every = mask.expand(repeats, *mask.shape).reshape(-1, 1, s * s, s * s)
        return bias + every


@dataclass(frozen=True, slots=True, eq=False)
class MergePlaces(Op):
    """[B, h, w, C] to [B, h / 2, w / 2, 4 C]: four neighbours side by side, padded with zeros to pairs.

    In the order upper left, lower left, upper right, lower right (Swin, arXiv:2103.14030 section 3.1).
    """

    drawn: ClassVar[str] = "concat"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], ceil_div(x[1], 2), ceil_div(x[2], 2), 4 * x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("merge", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        b, h, w, c = x.shape
        x = torch.nn.functional.pad(x, (0, 0, 0, w % 2, 0, h % 2)) if h % 2 or w % 2 else x
        pairs = x.reshape(b, (h + 1) // 2, 2, (w + 1) // 2, 2, c).permute(0, 1, 3, 4, 2, 5)
        return pairs.reshape(b, (h + 1) // 2, (w + 1) // 2, 4 * c)
