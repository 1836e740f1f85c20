"""Positions on a grid: queries and keys turned by row and column, and biases by their differences.

T tokens, H query heads, h and w rows and columns of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.positions.position import Position
from archcli.modules.positions.relative import ScoreBias
from archcli.modules.spec.base import Conflict, Positive, Size
from archcli.modules.spec.values import Length
from archcli.ops import GridBias, GridRotaryTable, PairPadding, Rotate
from archcli.wings.media.ops.places import FULL_TURN

Sides = Annotated[tuple[Size, ...], Length(2, 2)]


class GridRope(Position):
    """Rotary positions in two dimensions: half of the pairs turn by the row, half by the column.

    Of a head of width d pair i of each half turns by coordinate * theta^(-4i/d), with `full_turns` by 2 pi
    times as much (DINOv3, arXiv:2508.10104 section 3.2). With `between` pair i of columns turns by
    theta^(-(4i + 2)/d), between two of rows (Pixtral, arXiv:2410.07073). The coordinates are the front end's.
    With `trained_first` the angles of the first token are trained (MLCD, arXiv:2407.17331).
    """

    acts_on = "heads"
    kind: Literal["grid_rope"] = "grid_rope"
    theta: Positive = 10000.0
    full_turns: bool = False
    between: bool = False
    trained_first: bool = False

    def table(
        self, positions: Tensor, head_dim: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """cos and sin, [T, d/2] each."""
        turn = FULL_TURN if self.full_turns else 1.0
        op = GridRotaryTable(name, head_dim, self.theta, turn, self.between, self.trained_first)
        table: tuple[Tensor, Tensor] = op(positions, *(() if like is None else (like,)))
        return table

    def rotary_width(self, width: Number) -> Number:
        return width

    def rotate(self, x: Tensor, table: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Heads x [B, T, H, d], rotated."""
        turned: Tensor = Rotate(name)(x, *(table or ()))
        return turned

    def check_width(self, width: int) -> Iterator[Conflict]:
        """Conflict: a width that is no multiple of 4."""
        if width % 4:
            what = f"two dimensions rotate pairs of both halves, and head_dim is {width}"
            yield Conflict("grid-rope-width", "position", what, "state a head_dim that is a multiple of 4")


class GridDifferences(Position):
    """A bias on scores for each difference of row and column, with a table for each layer.

    BEiT, arXiv:2106.08254. `grid` is (h, w). `class_token` adds three rows, from, to and of the class token.
    """

    acts_on = "scores"
    shares_bias: ClassVar[bool] = True
    kind: Literal["grid_bias"] = "grid_bias"
    grid: Sides
    class_token: bool = True

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor:
        """The bias [1, H, T, T]."""
        op = GridBias("score_bias", q.shape[2], (self.grid[0], self.grid[1]), int(self.class_token))
        bias: Tensor = op(positions, group=ScoreBias.group)
        return bias


class SharedGridDifferences(ScoreBias):
    """The bias of `GridDifferences` with one table for all layers.

    `grid` is (h, w). `class_token` adds three rows, from, to and of the class token.
    """

    kind: Literal["grid_bias"] = "grid_bias"
    grid: Sides
    class_token: bool = True

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, H, T, T]."""
        bias: Tensor = GridBias(name, n_heads, (self.grid[0], self.grid[1]), int(self.class_token))(positions)
        return bias


class PaddedTiles(ScoreBias):
    """Takes pairs of padding vectors out: of each `padded` vectors the first `tokens` are none.

    A padding vector sees others and is seen by them (Llama 3.2 Vision, whose class has it so).
    """

    kind: Literal["padded_tiles"] = "padded_tiles"
    tokens: Size
    padded: Size

    def forward(self, positions: Tensor, visible: Number, n_heads: Number, *, name: str) -> Tensor:
        """The bias [1, 1, T, T], which all heads read."""
        bias: Tensor = PairPadding(name, self.tokens, self.padded)(positions)
        return bias
