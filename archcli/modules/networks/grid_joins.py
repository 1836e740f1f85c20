"""Steps on a grid made of other steps: in a row, side by side, or all of a row side by side.

B batch, h and w rows and columns, C channels.
"""

from __future__ import annotations

from typing import Annotated, Literal

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.grid_steps import Grid, GridStep, grid_after, run_grid_steps
from archcli.modules.spec.base import Size
from archcli.modules.spec.values import Interval, Length
from archcli.ops import Add, Concat, PadPlaces, Parameter, SplitHeads


class SequenceStep(GridStep):
    """Several `steps` in a row as one, where one is asked for."""

    kind: Literal["sequence"] = "sequence"
    steps: Annotated[tuple[GridStep, ...], Length(least=1)]

    def places_after(self, grid: Grid) -> Grid:
        """Rows and columns behind the last."""
        return grid_after(self.steps, grid)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to the grid behind the last."""
        return run_grid_steps(self.steps, x, "steps")


class JoinedStep(GridStep):
    """y = [B_1 x, B_2 x, ...]: the channels of all branches side by side, each of one step."""

    kind: Literal["join"] = "join"
    branches: Annotated[tuple[GridStep, ...], Length(least=2)]

    def places_after(self, grid: Grid) -> Grid:
        """Rows and columns behind the first branch; those of others are as many."""
        return self.branches[0].places_after(grid)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to the grid behind the branches, as wide as all of them."""
        return _joined([branch(x, name=f"branches.{i}") for i, branch in enumerate(self.branches)])


class DenseStep(GridStep):
    """y = [x, S_1 x, S_2 S_1 x, ...]: x and what each of the `steps` in a row makes, side by side.

    HGNetV2; DenseNet's steps read all before them (arXiv:1608.06993), these the last alone.
    """

    kind: Literal["dense"] = "dense"
    steps: Annotated[tuple[GridStep, ...], Length(least=1)]

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h, w, C + channels of all steps]."""
        made = [x]
        for i, step in enumerate(self.steps):
            made.append(step(made[-1], name=f"steps.{i}"))
        return _joined(made)


class PlacedStep(GridStep):
    """x + P with a trained vector of each of `number` places, row by row (PVT, arXiv:2102.12122)."""

    kind: Literal["positions"] = "positions"
    number: Size

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h, w, C]; ArchError for another number of places."""
        check_places(x, self.number)
        table = Parameter("table", (self.number, x.shape[3]))(x, group="position_embedding")
        total: Tensor = Add("add")(x, SplitHeads("places", x.shape[1], axis=0)(table))
        return total


def check_places(x: Tensor, number: Number) -> None:
    """Raise ArchError for a grid [B, h, w, C] of another number of places than has vectors."""
    h, w = x.shape[1:3]
    # a formula may have symbols for either: then they are taken to fit
    if is_whole(number) and is_whole(h) and is_whole(w) and h * w != number:
        what = f"a grid of {h} x {w} places is not read: positions are those of {number:,}"
        raise ArchError(what, "resize the image to image_size")


class FillStep(GridStep):
    """Zeros below and to the right, until both sides are multiples of `multiple`."""

    kind: Literal["fill"] = "fill"
    multiple: Annotated[int, Interval(ge=1)] = 2

    def places_after(self, grid: Grid) -> Grid:
        """Both sides, rounded up."""
        h, w = (n + -n % self.multiple for n in grid)
        return h, w

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h', w', C]."""
        h, w = (-n % self.multiple for n in x.shape[1:3])
        filled: Tensor = PadPlaces("fill", (0, w, 0, h))(x)
        return filled


def _joined(grids: list[Tensor]) -> Tensor:
    """All grids, their channels side by side."""
    y = grids[0]
    for i, other in enumerate(grids[1:], 1):
        y = Concat(f"join{i}")(y, other)
    return y
