"""Sizings of single families: tiles with another overview, padded tiles, quarters (Idefics2).

H and W height and width in pixels.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor, log, sqrt
from typing import ClassVar, Literal

from archcli.errors import ArchError
from archcli.modules.spec.base import Size
from archcli.wings.media.modules.ends.projectors import Pieces
from archcli.wings.media.modules.images.sizings import (
    MOST_TILES,
    CanvasTiles,
    ImageSizing,
    NearestMultiple,
    Sides,
)

NEAR, LARGEST_SCALE = 1e-5, 100.0
"""Precision and upper end of the search for a scale, as in SigLIP 2's class."""


class TilesBeyond(ImageSizing):
    """As `multiple`; of more than `largest` pixels tiles, to which that size is an overview (LFM2-VL).

    The tiles are those of `canvas`; `overview` false leaves the other out.
    """

    kind: Literal["tiles_beyond"] = "tiles_beyond"
    factor: Size
    least: Size
    most: Size
    largest: Size
    tile: Size
    least_tiles: Size = 2
    most_tiles: Size = 10
    overview: bool = True

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece, or tiles and the overview."""
        n = self.factor
        if not round(min(height, width) / n):
            what = f"an image of {height} x {width} is not read: a side is less than half of {n}"
            raise ArchError(what, "give one that is less narrow")
        single = NearestMultiple(factor=n, least=self.least, most=self.most).pieces(height, width)
        if round(height / n) * round(width / n) * n * n <= self.largest:
            return single
        canvas = CanvasTiles(
            tile=(self.tile, self.tile), least=self.least_tiles, most=self.most_tiles, overview=False
        )
        tiles = canvas.pieces(height, width)
        return tiles._replace(others=((1, single.size),)) if self.overview and tiles.number > 1 else tiles


class PatchBudget(ImageSizing):
    """The largest size in the image's shape of at most `most` patches, sides up to whole ones (SigLIP 2).

    NaFlex, arXiv:2502.14786 section 2.4.2. Smaller images grow as well.
    """

    kind: Literal["patch_budget"] = "patch_budget"
    patch: Size
    most: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        low, high = NEAR / 10, LARGEST_SCALE
        while high - low >= NEAR:  # as the class does, whose limits decide what is rounded up
            scale = (low + high) / 2
            rows, columns = self._grid(scale, height, width)
            low, high = (scale, high) if rows * columns <= self.most else (low, scale)
        rows, columns = self._grid(low, height, width)
        return Pieces(1, (rows * self.patch, columns * self.patch))

    def _grid(self, scale: float, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches of the scaled image."""
        rows, columns = (max(1, ceil(side * scale / self.patch)) for side in (height, width))
        return rows, columns


class PatchRange(ImageSizing):
    """The image's own grid of patches of side `patch`, scaled to between `least` and `most` of them.

    Nemotron Omni: then rows and columns go up to multiples of `block`, or down where those are too many.
    """

    kind: Literal["patch_range"] = "patch_range"
    patch: Size
    block: Size
    least: Size
    most: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        # a half is rounded to the even number, as in the class
        rows, columns = (round(side / self.patch + 0.5) for side in (height, width))
        shrunk = min(sqrt(self.most / (rows * columns)), 1.0)
        rows, columns = floor(shrunk * rows), floor(shrunk * columns)
        if not rows * columns:
            what = f"an image of {height} x {width} is not read: {self.most:,} patches leave none of a side"
            raise ArchError(what, "give one that is less narrow")
        if self.most > self.least > rows * columns:
            grown = sqrt(self.least / (rows * columns))
            rows, columns = ceil(grown * rows), ceil(grown * columns)
        rows = self._whole(rows, columns)
        columns = self._whole(columns, rows)
        return Pieces(1, (rows * self.patch, columns * self.patch))

    def _whole(self, side: int, across: int) -> int:
        """A side rounded up to a multiple of a block, or down if that makes too many patches."""
        up = -(-side // self.block) * self.block
        down = max(self.block, side // self.block * self.block)
        return up if up == side or up * across <= self.most else down


class GridBudget(ImageSizing):
    """The grid of at most `most` cells of `cell` pixels nearest to the image's shape (Muse Glimmer).

    Images that fit keep their size, each side rounded to a cell; larger ones shrink to `most` cells first.
    """

    kind: Literal["grid_budget"] = "grid_budget"
    cell: Size
    most: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        down, across = height / self.cell, width / self.cell
        if down * across > self.most:
            ratio = across / down
            down = (self.most / ratio) ** 0.5
            across = down * ratio
        # of equally near ones the first of the set, as in the class
        around = {*product((floor(down), ceil(down)), (floor(across), ceil(across)))}
        grids = [grid for grid in around if 0 < grid[0] * grid[1] <= self.most] or [
            (max(1, round(down)), max(1, round(across)))
        ]
        rows, columns = min(grids, key=lambda grid: abs(grid[0] / grid[1] - height / width))
        return Pieces(1, (rows * self.cell, columns * self.cell))


class SlicedSquares(ImageSizing):
    """The whole in the area of a square of `side` pixels, and slices of about that area (MiniCPM-V).

    LLaVA-UHD, arXiv:2403.11703 section 3.1: as many as the image has such areas, up to `most`, in the
    arrangement nearest to its shape; both sides of each piece to the nearest multiple of `factor`.
    """

    kind: Literal["slices"] = "slices"
    side: Size
    factor: Size
    most: Size = 9

    def pieces(self, height: int, width: int) -> Pieces:
        """The view of the whole, and the slices."""
        if self.most > MOST_TILES:  # each arrangement is looked at
            what = f"an image is not cut into up to {self.most:,} slices"
            raise ArchError(what, f"state at most {MOST_TILES:,}")
        # a smaller image grows to the square: it has no slices
        whole = self._fitted(height, width)
        number = min(ceil(height * width / (self.side * self.side)), self.most)
        if number <= 1:
            return Pieces(1, whole)
        rows, columns = self._arrangement(number, height, width)
        sides = (_multiple(height, rows) / rows, _multiple(width, columns) / columns)
        return Pieces(1, whole, rows, columns, ((rows * columns, self._fitted(*sides)),))

    def _fitted(self, height: float, width: float) -> tuple[int, int]:
        """A size of the square's area in this shape, rounded to multiples of `factor`."""
        ratio = width / height
        height = int(self.side / sqrt(ratio))
        width = int(height * ratio)
        return _multiple(height, self.factor), _multiple(width, self.factor)

    def _arrangement(self, number: int, height: int, width: int) -> tuple[int, int]:
        """(rows, columns) of `number` slices, or one less or more, nearest to the shape; then more rows."""
        best, nearest, shape = (1, 1), float("inf"), log(width / height)
        for slices in (number - 1, number, number + 1):
            if slices == 1 or slices > self.most:
                continue
            for rows in range(1, slices + 1):
                if slices % rows:
                    continue
                distance = abs(shape - log(slices // rows / rows))
                if distance < nearest or (distance == nearest and rows > best[0]):
                    best, nearest = (rows, slices // rows), distance
        return best


def _multiple(side: float, factor: int) -> int:
    """The nearest multiple of a factor, at least one."""
    return max(round(side / factor) * factor, factor)


class WindowTiles(ImageSizing):
    """A view of the whole at `size`, and windows of the image, each resized to `tile` (Step 3.7).

    The longer side is at most `longest`. A window is as wide as a tile, or as the shorter side of a long
    image. An image that fits into `size` has windows only where it is long.
    """

    kind: Literal["windows"] = "windows"
    size: Sides
    tile: Size
    longest: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """The view of the whole, and the windows."""
        rows, columns = self._windows(height, width)
        others = ((rows * columns, (self.tile, self.tile)),) if rows else ()
        return Pieces(1, (self.size[0], self.size[1]), 1, 1, others)

    def _windows(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of windows."""
        if min(height, width) < 32 and max(height, width) > 4 * min(height, width):  # noqa: PLR2004
            height = width = max(height, width)  # a strip is padded to a square
        if max(height, width) > self.longest:
            scale = self.longest / max(height, width)
            height, width = int(height * scale), int(width * scale)
        window = self._window(min(height, width), max(height, width))
        if not window:
            return 0, 0
        # a rest of more than 0.2 windows makes another window
        rows, columns = (max(1, side // window + (side % window > 0.2 * window)) for side in (height, width))
        return rows, columns

    def _window(self, short: int, long: int) -> int:
        """The side of a window, by the constants of the class; 0 for an image without windows."""
        if long <= self.size[0]:
            return short if long / short > 1.5 else 0  # noqa: PLR2004
        return min(short, self.tile) if long / short > 4 else self.tile  # noqa: PLR2004


class CroppedTiles(ImageSizing):
    """Whole tiles that hold the image, padded on the right and below, and an overview (Phi-4).

    arXiv:2503.01743 section 2.2. At most `most` tiles: of larger images the arrangement of `canvas`. `patch`
    is the side of a patch, of which the padding has none.
    """

    kind: Literal["crops"] = "crops"
    tile: Size
    patch: Size
    most: Size = 36

    def pieces(self, height: int, width: int) -> Pieces:
        """All tiles, and the overview."""
        rows, columns = (ceil(side / self.tile) for side in (height, width))
        if rows * columns > self.most:
            canvas = CanvasTiles(tile=(self.tile, self.tile), most=self.most)
            rows, columns = canvas.pieces(height, width)[2:4]
        return Pieces(rows * columns + 1, (self.tile, self.tile), rows, columns)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of a tile."""
        return self.tile // self.patch, self.tile // self.patch

    def kept(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches of all tiles that show the image."""
        pieces = self.pieces(height, width)
        room = (pieces.rows * self.tile, pieces.columns * self.tile)
        across, down = room[1] / width, room[0] / height
        filled = (int(height * across), room[1]) if across < down else (room[0], int(width * down))
        rows, columns = (
            whole // self.patch - (whole - side) // self.patch
            for whole, side in zip(room, filled, strict=True)
        )
        return rows, columns

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """Tokens of the tiles without padding and of the overview, a token per row, and a separator."""
        kept = self.kept(*size)
        rows, columns = (
            -(-n * side // whole) for n, side, whole in zip(kept, places, self.grid, strict=True)
        )
        return rows * (columns + 1) + 1 + places[0] * (places[1] + 1)


class BetweenSides(ImageSizing):
    """The longer side at most `longest`, the shorter at least `shortest` (Idefics2).

    With `quarters` the image is read in quarters too, resized by the same rule and padded to its size.
    """

    kind: Literal["between"] = "between"
    shortest: Size
    longest: Size
    quarters: bool = False

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece, or the quarters and the whole."""
        whole = self._resized(height, width)
        if not self.quarters:
            return Pieces(1, whole)
        sides = ((height // 2, height - height // 2), (width // 2, width - width // 2))
        if not all(min(pair) for pair in sides):
            raise ArchError(f"an image of {height} x {width} has no quarters", "give a larger one")
        every = [whole, *(self._resized(h, w) for h in sides[0] for w in sides[1])]
        return Pieces(5, (max(h for h, _ in every), max(w for _, w in every)))

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        ratio = width / height
        if width >= height and width > self.longest:
            width, height = self.longest, int(self.longest / ratio)
        elif height > width and height > self.longest:
            height, width = self.longest, int(self.longest * ratio)
        return max(height, self.shortest), max(width, self.shortest)


class WithinBounds(ImageSizing):
    """Larger images shrink to fit into `bounds`, then both sides up to whole patches (Fuyu).

    A token follows each row of the prompt.
    """

    kind: Literal["within"] = "within"
    bounds: Sides
    patch: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        highest, widest = self.bounds
        if height > highest or width > widest:
            scale = min(highest / height, widest / width)
            height, width = max(int(height * scale), 1), max(int(width * scale), 1)
        whole = (ceil(side / self.patch) * self.patch for side in (height, width))
        rows, columns = (min(side, bound) for side, bound in zip(whole, self.bounds, strict=True))
        return Pieces(1, (rows, columns))

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """A token for each patch, and for the end of each row."""
        return per_piece + places[0]

    def vectors(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """One for each patch."""
        return per_piece


class UnknownSizing(ImageSizing):
    """What becomes of an image is not known (Molmo 2): weights are counted, and no image is read.

    `why` is the reason, in words.
    """

    reads: ClassVar[bool] = False
    kind: Literal["unknown"] = "unknown"
    why: str = "how this model cuts images is not known"

    def pieces(self, height: int, width: int) -> Pieces:
        """The image itself, whose weights are those of any other."""
        return Pieces(1, (height, width))

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """Raises ArchError: the number of tokens is unknown."""
        what = f"an image of {size[0]} x {size[1]} is not read: {self.why}"
        raise ArchError(what, "ask for its text alone")
