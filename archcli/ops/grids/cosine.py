"""Ops of attention by cosines within windows: temperatures of heads, biases that a network makes.

B batch, T places of a window, H heads, d width of a head, s side of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import movement, summed

LOG_BASE = 8
"""Differences are scaled to -8 to 8, and their logarithm is that of 8; arXiv:2111.09883 section 3.3."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadTemperature(Op):
    """y = exp(min(t_h, cap)) x for a trained number t of each head, x [B, T, H, d]."""

    drawn: ClassVar[str] = "scale"
    sign: ClassVar[str] = "scale"
    name: str
    cap: float

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"scale": (x[2],)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, heads = prod(x), x[2]
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + heads, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 2 * n, heads, wrt="scale"),
        )
        return (Part("scale", OpClass.ELEMENTWISE, n + 2 * heads, n + heads, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * weights["scale"].clamp(max=self.cap).exp()[:, None]

    def initial(self, weight: str) -> float | None:
        return 2.302585092994046  # log 10, as in the paper's code


@dataclass(frozen=True, slots=True, eq=False)
class LogDifferences(Op):
    """Logarithms of all differences of rows and columns within a window, [(2 s - 1)^2, 2].

    sign(x) log2(|x| + 1) / log2(8) with x from -8 to 8; `usual` is the side of the windows of training,
    where that is another (Swin V2, arXiv:2111.09883 section 3.3). Its input is used for its tape alone.
    """

    drawn: ClassVar[str] = "aside"
    zero_cost_reason: ClassVar[str] = "numbers of the window's side alone, made once"
    name: str
    side: int
    usual: int = 0

    def shape(self, anchor: Shape) -> Shape:
        return ((2 * self.side - 1) ** 2, 2)

    def trained(self, grads: list[bool], anchor: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], anchor: Any) -> Any:
        line = torch.arange(1 - self.side, self.side, device=anchor.device).to(anchor.dtype)
        most = (self.usual or self.side) - 1
        scaled = line / most * LOG_BASE if most > 0 else line * LOG_BASE
        logs = scaled.sign() * (scaled.abs() + 1.0).log() / log(LOG_BASE)
        n = 2 * self.side - 1
        rows, columns = logs[:, None].expand(n, n), logs[None, :].expand(n, n)
        return torch.stack((rows, columns), dim=-1).reshape(n * n, 2)


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceBias(Op):
    """bias[1, h, i, j] = scale sigmoid(table[query i's row and column minus key j's, h]).

    The table [(2 s - 1)^2, H] has a row for each difference of places of a window.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    side: int
    scale: float

    def shape(self, table: Shape) -> Shape:
        places = self.side * self.side
        return (1, table[1], places, places)

    def parts(self, table: Shape) -> tuple[Part, ...]:
        moved, rows = prod(self.shape(table)), prod(table)
        gather = movement("gather", moved, moved, (summed(0, moved, rows),))
        back = Part("d_0", OpClass.ELEMENTWISE, 3 * moved, 2 * moved, moved, wrt=0)
        return (gather, Part("sigmoid", OpClass.ELEMENTWISE, 5 * moved, moved, moved, (back,)))

    def run(self, torch: Any, weights: dict[str, Any], table: Any) -> Any:
        s: Number = self.side
        place = torch.arange(s * s, device=table.device)
        rows, columns = place // s, place % s
        down = rows[:, None] - rows[None, :] + (s - 1)
        index = down * (2 * s - 1) + (columns[:, None] - columns[None, :] + (s - 1))
        return (table[index].permute(2, 0, 1).sigmoid() * self.scale)[None]
