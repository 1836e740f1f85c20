"""Ops on positions of patches: position tables, resized to another grid, and coordinates.

h and w rows and columns of a grid, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, maximum
from archcli.graph import Op, OpClass, Part, Traits
from archcli.ops.attention.relative import BIASED
from archcli.ops.base import elementwise, movement, summed

Resampling = Literal["bicubic", "bilinear", "nearest"]
PER_ELEMENT = {"bicubic": 35, "bilinear": 9, "nearest": 0}
"""FLOPs of an element: along one axis k products and k - 1 sums for k taps (4 or 2), k times; then once."""


@dataclass(frozen=True, slots=True, eq=False)
class ResizeTable(Op):
    """Interpolate a position table [n + h w, D] to another grid of patches: [n + h' w', D].

    leading: n, vectors of class tokens in front, which stay as they are.
    mode, antialias: of torch's `interpolate`; `corners` is its `align_corners`.
    square: interpolate to a square of the longer side, then cut it to h' rows and w' columns.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "resize"
    name: str
    before: tuple[Number, Number]
    after: tuple[Number, Number]
    leading: int = 0
    mode: Resampling = "bicubic"
    antialias: bool = False
    corners: bool = False
    square: bool = False

    @property
    def interpolated(self) -> tuple[Number, Number]:
        """Rows and columns of the interpolated grid, before it is cut."""
        return (maximum(*self.after),) * 2 if self.square else self.after

    def shape(self, table: Shape) -> Shape:
        return (self.leading + self.after[0] * self.after[1], table[1])

    def parts(self, table: Shape) -> tuple[Any, ...]:
        return (
            elementwise(
                "resize", self.interpolated[0] * self.interpolated[1] * table[1], PER_ELEMENT[self.mode]
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], table: Any) -> Any:
        front, rest = table[: self.leading], table[self.leading :]
        grid = rest.reshape(1, *self.before, table.shape[1]).permute(0, 3, 1, 2)
        options: dict[str, Any] = {"mode": self.mode}
        if self.mode != "nearest":
            options |= {"align_corners": self.corners, "antialias": self.antialias}
        resized = torch.nn.functional.interpolate(grid, size=self.interpolated, **options)
        resized = resized[..., : self.after[0], : self.after[1]]
        places = resized.permute(0, 2, 3, 1).reshape(-1, table.shape[1])
        return torch.cat((front, places), dim=0) if self.leading else places


@dataclass(frozen=True, slots=True, eq=False)
class AxisTables(Op):
    """Position vectors of a grid, [h w, D]: table[0, column] + table[1, row] (Gemma 4).

    The two tables are stored as one, [2, entries, D]. x [B, h w, D] gives the width.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    entries: Number
    grid: tuple[Number, Number]

    def shape(self, x: Shape) -> Shape:
        return (self.grid[0] * self.grid[1], x[2])

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (2, self.entries, x[2])}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = self.grid[0] * self.grid[1] * x[2]
        back = summed("weight", 2 * n, 2 * self.entries * x[2])
        return (Part("sum", OpClass.ELEMENTWISE, n, 2 * n, n, (back,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        h, w = self.grid
        columns, rows = weights["weight"][0, :w], weights["weight"][1, :h]
        return (columns[None, :] + rows[:, None]).flatten(0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class GridCoordinates(Op):
    """Row and column [T, 2] of each token of x [B, T, D]: 0 for the first `leading`, then row by row.

    `centred`: centers of patches in an image that reaches from -1 to 1 (DINOv3).
    """

    drawn: ClassVar[str] = "aside"
    name: str
    grid: tuple[Number, Number]
    leading: int = 0
    centred: bool = False
    zero_cost_reason: ClassVar[str] = "a constant of the image's size"

    def shape(self, x: Shape) -> Shape:
        return (x[1], 2)

    def trained(self, grads: list[bool], x: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        rows, columns = (torch.arange(n, device=x.device).float() for n in self.grid)
        if self.centred:
            rows = 2.0 * ((rows + 0.5) / self.grid[0]) - 1.0
            columns = 2.0 * ((columns + 0.5) / self.grid[1]) - 1.0
        pairs = (rows[:, None].expand(*self.grid), columns[None, :].expand(*self.grid))
        places = torch.stack(pairs, dim=-1).flatten(0, 1)
        return torch.nn.functional.pad(places, (0, 0, self.leading, 0)) if self.leading else places


@dataclass(frozen=True, slots=True, eq=False)
class GridRotaryTable(Op):
    """cos and sin, [T, d/2] each, of row and column times frequencies: coordinates [T, 2].

    Of d/2 pairs of features the first half rotates by the row, the second by the column: pair i of each half
    by place * turn * theta^(-4i/d). With `between` pair i of a column uses theta^(-(4i + 2)/d), which lies
    between pairs i and i + 1 of a row (Pixtral). With `trained_first` the angles of the first token are
    weights (MLCD). A second input gives the dtype of the tables.
    """

    drawn: ClassVar[str] = "aside"
    dtype_inputs: ClassVar[frozenset[int]] = frozenset({1})
    follows_run: ClassVar[bool] = True
    name: str
    width: Number
    theta: float
    turn: float = 1.0
    between: bool = False
    trained_first: bool = False

    def traits(self, *xs: Shape) -> Traits:
        return Traits(marks=(f"2-D RoPE θ {self.theta:,.15g}",))

    def weights(self, *xs: Shape) -> dict[str, Shape]:
        return {"angles": (self.width // 2,)} if self.trained_first else {}

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return self.trained_first

    def shape(self, places: Shape, *like: Shape) -> tuple[Shape, Shape]:
        return ((places[0], self.width // 2),) * 2

    def parts(self, places: Shape, *like: Shape) -> tuple[Part, ...]:
        n = places[0] * (self.width // 2)
        angles = self.width // 2
        gradient = Part("d_angles", OpClass.ELEMENTWISE, 4 * angles, 4 * angles, angles, wrt="angles")
        gradients = (gradient,) if self.trained_first else ()
        # 3 n: the angle, its cosine and its sine
        return (Part("angles", OpClass.ELEMENTWISE, 3 * n, 2 * places[0], 2 * n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], places: Any, like: Any = None) -> Any:
        exponents = torch.arange(self.width // 4, device=places.device).float() * (4 / self.width)
        if self.between:
            # exponents of rows, and of columns
            exponents = torch.stack((exponents, exponents + 2 / self.width))
        frequencies = self.theta**-exponents
        angles = (self.turn * places[:, :, None] * frequencies).flatten(1, 2)
        if self.trained_first:
            angles = torch.cat((weights["angles"][None].float(), angles[1:]), dim=0)
        cos, sin = angles.cos(), angles.sin()
        return (cos, sin) if like is None else (cos.to(like.dtype), sin.to(like.dtype))


FULL_TURN = 2 * math.pi


@dataclass(frozen=True, slots=True, eq=False)
class GridBias(Op):
    """Relative position bias on a grid: bias[1, h, i, j] = table[place of key j minus that of query i, h].

    Input positions [T]. The table [(2 h - 1)(2 w - 1) + 3, H] has a row for each difference; with a class
    token in front (`leading` 1) three more: from it, to it, and from it to itself (BEiT).
    """

    drawn: ClassVar[str] = "aside"
    name: str
    heads: Number
    grid: tuple[Number, Number]
    leading: int = 0

    def shape(self, positions: Shape) -> Shape:
        return (1, self.heads, positions[0], positions[0])

    def weights(self, positions: Shape) -> dict[str, Shape]:
        differences = (2 * self.grid[0] - 1) * (2 * self.grid[1] - 1)
        return {"weight": (differences + 3 * self.leading, self.heads)}

    def traits(self, *xs: Shape) -> Traits:
        return BIASED

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        pairs = positions[0] * positions[0]
        moved, (rows, heads) = pairs * self.heads, self.weights(positions)["weight"]
        gradient = summed("weight", moved, rows * heads, index=pairs)
        return (movement("gather", moved + pairs, moved, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        h, w = self.grid
        place = torch.arange(h * w, device=positions.device)
        rows, columns = place // w, place % w
        down = rows[:, None] - rows[None, :] + (h - 1)
        index = down * (2 * w - 1) + (columns[:, None] - columns[None, :] + (w - 1))
        if self.leading:
            last = (2 * h - 1) * (2 * w - 1)
            index = torch.nn.functional.pad(index, (0, 0, 1, 0), value=last)
            side = torch.full((h * w + 1, 1), last + 1, device=positions.device, dtype=index.dtype)
            # row 0 is the class token as key; the corner is the class token to itself
            side = torch.where(torch.arange(h * w + 1, device=positions.device)[:, None] == 0, last + 2, side)
            index = torch.cat((side, index), dim=1)
        return weights["weight"][index].permute(2, 0, 1)[None]
