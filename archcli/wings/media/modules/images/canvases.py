"""Sizings of one family: padding to whole tokens (Kimi, GLM-5.3), tiles that keep an area (Ovis2).

H and W height and width in pixels.
"""

from __future__ import annotations

from math import ceil, prod, sqrt
from typing import Literal

from archcli.modules.spec.base import Size
from archcli.wings.media.modules.ends.projectors import Pieces
from archcli.wings.media.modules.images.sizings import CanvasTiles, ImageSizing

ENOUGH = 0.9
"""The share of an image's area that Ovis2's tiles keep."""


class PaddedGrid(ImageSizing):
    """Larger images shrink to `most` patches, `longest` on a side, and are padded to a `cell` (Kimi).

    A cell is the side of a token in pixels, a multiple of `patch`.
    """

    kind: Literal["padded"] = "padded"
    cell: Size
    patch: Size
    most: Size
    longest: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        rows, columns = (max(1, side // self.patch) for side in (height, width))
        side, bound = max(height, width), self.longest * self.patch
        scale = min(1.0, sqrt(self.most / (rows * columns)), bound / side)
        shrunk = (min(max(1, int(side * scale)), bound) for side in (height, width))
        height, width = (ceil(side / self.cell) * self.cell for side in shrunk)
        return Pieces(1, (height, width))


class TokenBudget(ImageSizing):
    """Images are padded to a `cell`; those of under `least` or over `most` cells grow or shrink (GLM-5.3).

    A cell is the side of a token in pixels. One that shrinks has the greatest height whose cells are not too
    many, the width in proportion.
    """

    kind: Literal["budget"] = "budget"
    cell: Size
    least: Size
    most: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        cells = self._cells(height, width)
        if prod(cells) < self.least:
            scale = sqrt(self.least * self.cell**2 / (height * width))
            cells = self._cells(ceil(height * scale), ceil(width * scale))
        if prod(cells) > self.most:
            cells = self._shrunk(height, width)
        return Pieces(1, (cells[0] * self.cell, cells[1] * self.cell))

    def _cells(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns that hold so many pixels."""
        return ceil(height / self.cell), ceil(width / self.cell)

    def _shrunk(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the image as high as may be; one cell where it never fits."""
        best, low, high = (1, 1), 1, height
        while low <= high:
            middle = (low + high) // 2
            cells = self._cells(middle, max(1, width * middle // height))
            if prod(cells) <= self.most:
                best, low = cells, middle + 1
            else:
                high = middle - 1
        return best


class CoveringTiles(CanvasTiles):
    """The least number of square tiles that keep over 0.9 of the image's area, and an overview (Ovis2).

    arXiv:2405.20797. A part of the image larger than a tile keeps what is left of it when its longer side
    shrinks to the tile's. Where no arrangement keeps enough, the one that keeps most.
    """

    kind: Literal["covering"] = "covering"  # type: ignore[assignment]

    def arrangement(self, height: int, width: int) -> tuple[int, int]:
        """(columns, rows); of as many tiles those that keep most."""
        kept = {shape: self._kept(height, width, *shape) for shape in self.shapes()}
        enough = [shape for shape in kept if kept[shape] > ENOUGH]
        if enough:
            return min(enough, key=lambda shape: (shape[0] * shape[1], -kept[shape]))
        return max(kept, key=kept.__getitem__)

    def _kept(self, height: int, width: int, down: int, across: int) -> float:
        """The share of the image's area that is kept. The class cuts the height by the number of columns."""
        total, side = 0.0, self.tile[0]
        for h, rows in _cuts(height, down):
            for w, columns in _cuts(width, across):
                long, short = max(h, w), min(h, w)
                total += rows * columns * (short / long * side * side if long > side else long * short)
        return total / (height * width)


def _cuts(side: int, parts: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(pixels, number) of equal parts of a side, and of the last part, which has the rest."""
    length = side // parts
    return (length, parts - 1), (side - length * (parts - 1), 1)
