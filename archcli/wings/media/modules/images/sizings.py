"""Sizings: the number and the size of the pieces that an image processor makes of an image.

H and W height and width in pixels, B batch, n pieces of an image, T vectors of a piece, D width.
"""

from __future__ import annotations

from math import ceil, floor, sqrt
from typing import Annotated, ClassVar, Literal

from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.spec.base import Count, Size, Spec
from archcli.modules.spec.values import Length
from archcli.ops import JoinPieces, UnpadTiles
from archcli.wings.media.modules.ends.projectors import Pieces

Sides = Annotated[tuple[Size, ...], Length(2, 2)]
"""Height and width."""
MOST_STRETCHED = 200
"""The largest ratio of the sides of an image that Qwen's processor accepts."""
MOST_TILES = 4096
"""The most tiles of an image; InternVL uses 12, and at most 40 on request."""


class ImageSizing(Spec):
    """What becomes of an image of any size."""

    family: ClassVar[str] = "image_sizing"
    default_kind: ClassVar[str] = "fixed"
    reads: ClassVar[bool] = True
    """Whether images can be read: False if the processor's rule is unknown."""

    def pieces(self, height: int, width: int) -> Pieces:
        """The pieces of an image of H x W pixels."""
        raise NotImplementedError

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """Tokens of an image in the prompt; a piece has `places` rows and columns, `per_piece` in all."""
        return pieces.number * per_piece

    def kept(self, height: int, width: int) -> tuple[int, int] | None:
        """Rows and columns of patches, over all tiles, without padding; None if there is no padding."""
        return None

    def vectors(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """Vectors of the tower among these tokens; the others are text, such as the end of a row."""
        return self.tokens(size, pieces, places, per_piece)

    def joined(
        self, x: Tensor, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], end: Tensor | None
    ) -> Tensor:
        """Join the vectors [B n, T, D] of pieces to those [B, N, D] of an image; `end` closes a row."""
        joined: Tensor = x if pieces.number == 1 else JoinPieces("join", pieces.number)(x)
        return joined


class FixedSize(ImageSizing):
    """Every image is resized to one `size`, and its border cut off (CLIP, SigLIP)."""

    kind: Literal["fixed"] = "fixed"
    size: Sides

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece of `size`."""
        return Pieces(1, (self.size[0], self.size[1]))


class ExactMultiple(ImageSizing):
    """Images whose sides are multiples of `factor` are read as they are, and no others.

    With `size` that one alone: what becomes of others is not known.
    """

    kind: Literal["exact"] = "exact"
    factor: Size = 1
    size: Sides | None = None

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece; ArchError for an image that has to be resized."""
        if self.size is not None and self.size != (height, width):
            usual = " x ".join(map(str, self.size))
            what = f"an image of {height} x {width} is not read: what becomes of it is known of {usual} alone"
            raise ArchError(what, f"resize the image to {usual}")
        if height % self.factor or width % self.factor:
            what = f"an image of {height} x {width} is not read: its sides are no multiples of {self.factor}"
            raise ArchError(what, "resize the image")
        return Pieces(1, (height, width))


class NearestMultiple(ImageSizing):
    """Both sides to the nearest multiple of `factor`, the area between two bounds (Qwen2-VL).

    arXiv:2409.12191 section 2.1. More than `most` pixels shrink, fewer than `least` grow. With `grown` a side
    below `factor` grows to it first, the other with it, rounded so (GLM-4V, PaddleOCR-VL).
    """

    kind: Literal["multiple"] = "multiple"
    factor: Size
    least: Size
    most: Size
    grown: Literal["floor", "round"] | None = None

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece; ArchError for an image that is a thin strip."""
        if self.grown is not None and min(height, width) < self.factor:
            scale = self.factor / min(height, width)
            to_whole = floor if self.grown == "floor" else round
            height, width = (max(self.factor, to_whole(side * scale)) for side in (height, width))
        if max(height, width) > MOST_STRETCHED * min(height, width):
            stretch = f"one side is over {MOST_STRETCHED} times the other"
            what = f"an image of {height} x {width} is not read: {stretch}"
            raise ArchError(what, "give one that is less stretched")
        n = self.factor
        sides = [round(side / n) * n for side in (height, width)]
        if sides[0] * sides[1] > self.most:
            ratio = sqrt(height * width / self.most)
            sides = [max(n, floor(side / ratio / n) * n) for side in (height, width)]
        elif sides[0] * sides[1] < self.least:
            ratio = sqrt(self.least / (height * width))
            sides = [ceil(side * ratio / n) * n for side in (height, width)]
        return Pieces(1, (sides[0], sides[1]))


class LongestSide(ImageSizing):
    """The longer side at most `longest`, then both up to a multiple of `patch` (Pixtral).

    arXiv:2410.07073. With `breaks` a token follows each row of the prompt.
    """

    kind: Literal["longest"] = "longest"
    longest: Size
    patch: Size
    breaks: bool = False

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece."""
        ratio = max(height / self.longest, width / self.longest)
        if ratio > 1:
            height, width = floor(height / ratio), floor(width / ratio)
        sides = [(max(side, 1) - 1) // self.patch * self.patch + self.patch for side in (height, width)]
        return Pieces(1, (sides[0], sides[1]))

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """A token for each place, and for the end of each row."""
        return per_piece + (places[0] if self.breaks else 0)

    def vectors(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """One for each place."""
        return per_piece


class CanvasTiles(ImageSizing):
    """Square tiles of `tile` pixels in the arrangement that is nearest to the image's shape (InternVL).

    arXiv:2404.16821 section 3.3. Between `least` and `most` tiles; with `overview` the whole image is
    one more where there are several. With `nearest` size it is the arrangement that an image is enlarged
    least for, or shrunk least where none is as large (Command A Vision, Llama 4). No more than `most_side`
    tiles lie in a row or a column (Granite Docling).
    """

    kind: Literal["canvas"] = "canvas"
    tile: Sides
    least: Size = 1
    most: Size = 12
    most_side: Size | None = None
    overview: bool = True
    nearest: Literal["shape", "size"] = "shape"

    def pieces(self, height: int, width: int) -> Pieces:
        """All tiles, and the overview."""
        if self.most > MOST_TILES:  # each arrangement is looked at
            what = f"an image is not cut into up to {self.most:,} tiles"
            raise ArchError(what, f"state at most {MOST_TILES:,}")
        columns, rows = self.arrangement(height, width)
        number = rows * columns
        more = 1 if self.overview and number > 1 else 0
        return Pieces(number + more, (self.tile[0], self.tile[1]), rows, columns)

    def shapes(self) -> list[tuple[int, int]]:
        """(columns, rows) of all arrangements, of fewer tiles first."""
        side = min(self.most, self.most_side or self.most)
        shapes = [
            (columns, rows)
            for columns in range(1, side + 1)
            for rows in range(1, min(side, self.most // columns) + 1)
            if self.least <= columns * rows
        ]
        return sorted(shapes, key=lambda shape: shape[0] * shape[1])

    def arrangement(self, height: int, width: int) -> tuple[int, int]:
        """(columns, rows); of two equally near ones the larger, unless it has twice the image's area."""
        if self.nearest == "size":
            return self._nearest_size(height, width, self.shapes())
        best, nearest, area = (1, 1), float("inf"), self.tile[0] * self.tile[1]
        for columns, rows in self.shapes():
            distance = abs(width / height - columns / rows)
            larger = distance == nearest and 2 * height * width > area * columns * rows
            if distance < nearest or larger:
                best, nearest = (columns, rows), distance
        return best

    def _nearest_size(self, height: int, width: int, shapes: list[tuple[int, int]]) -> tuple[int, int]:
        """(columns, rows) by the scale at which an image fits; of equal ones the first."""
        side = self.tile[0]
        scales = [min(columns * side / width, rows * side / height) for columns, rows in shapes]
        enlarged = [scale for scale in scales if scale >= 1]
        return shapes[scales.index(min(enlarged) if enlarged else max(scales))]


class PinnedTiles(ImageSizing):
    """The `sizes` that keeps most of the image, cut into square tiles, and an overview (LLaVA-1.6).

    Tokens of padding are taken off again, and each row of the rest ends in a trained newline. With `most`
    tiles a larger grid is resized to that many (LLaVA-OneVision, arXiv:2408.03326 section 3.2).
    """

    kind: Literal["pinned"] = "pinned"
    tile: Size
    sizes: Annotated[tuple[Sides, ...], Length(least=1)]
    most: Count = 0

    def pieces(self, height: int, width: int) -> Pieces:
        """Tiles of the best size, and the overview."""
        best = self._best(height, width)
        rows, columns = (side // self.tile for side in best)
        if not rows * columns:
            sides = " x ".join(map(str, best))
            raise ArchError(f"no tile of {self.tile} pixels fits in {sides}", "state sizes of whole tiles")
        return Pieces(rows * columns + 1, (self.tile, self.tile), rows, columns)

    def _best(self, height: int, width: int) -> tuple[int, ...]:
        def pixels_kept(size: tuple[int, ...]) -> tuple[int, int]:
            scale = min(size[1] / width, size[0] / height)
            pixels = min(int(width * scale) * int(height * scale), width * height)
            # then the least wasted area
            return pixels, pixels - size[0] * size[1]

        return max(self.sizes, key=pixels_kept)

    def tokens(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], per_piece: int) -> int:
        """Tokens of the overview, and of the tiles without padding, with a newline after each row."""
        rows, columns = self._resized(size, pieces, places) or self._sides(size, pieces, places)
        return per_piece + rows * (columns + 1)

    def _padding(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int]) -> tuple[int, int]:
        """Padding of the grid of all tiles: rows above (and below), columns at the left (and right)."""
        rows, columns = places[0] * pieces.rows, places[1] * pieces.columns
        height, width = size
        # rounded at seven digits, as the class does
        if width / height > columns / rows:
            return (rows - int(round(height * (columns / width), 7))) // 2, 0
        return 0, (columns - int(round(width * (rows / height), 7))) // 2

    def _sides(self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns without padding."""
        above, left = self._padding(size, pieces, places)
        return places[0] * pieces.rows - 2 * above, places[1] * pieces.columns - 2 * left

    def _resized(
        self, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int]
    ) -> tuple[int, int] | None:
        """Rows and columns after resizing, of a grid that is too large; None for others."""
        rows, columns = self._sides(size, pieces, places)
        ratio = sqrt(rows * columns / (self.most * places[0] ** 2)) if self.most else 1.0
        # 1.1: a constant of the class
        return (int(rows // ratio), int(columns // ratio)) if ratio > 1.1 else None  # noqa: PLR2004

    def joined(
        self, x: Tensor, size: tuple[int, ...], pieces: Pieces, places: tuple[int, int], end: Tensor | None
    ) -> Tensor:
        """The vectors of the overview, and of the tiles row by row, with `end` behind each row."""
        if end is None:
            return super().joined(x, size, pieces, places, end)
        above, left = self._padding(size, pieces, places)
        rows, columns = places[0] * pieces.rows, places[1] * pieces.columns
        kept = ((above, rows - above), (left, columns - left))
        op = UnpadTiles(
            "unpad", (pieces.rows, pieces.columns), places, kept, self._resized(size, pieces, places)
        )
        joined: Tensor = op(x, end)
        return joined


class SplitLongest(ImageSizing):
    """The longer side to `longest`, then square tiles of `tile` and an overview (Idefics 3, SmolVLM).

    With `most` tiles the longer side is lowered by a tile until there are no more (UltraVBERT).
    """

    kind: Literal["split"] = "split"
    longest: Size
    tile: Size
    most: Count = 0

    def pieces(self, height: int, width: int) -> Pieces:
        """All tiles and the overview; the overview alone of an image that is no larger than a tile."""
        longest, tile = self.longest, self.tile
        if longest > MOST_TILES * tile:
            what = f"an image is not cut into more than {MOST_TILES:,} tiles of a side"
            raise ArchError(what, f"state a longer side of at most {MOST_TILES * tile:,}")
        rows, columns = _tiles(*_scaled(height, width, longest), tile)
        while self.most and longest > tile and rows * columns > self.most:
            longest -= tile
            rows, columns = _tiles(*_scaled(height, width, longest), tile)
        number = 1 if rows * columns == 1 else rows * columns + 1
        return Pieces(number, (self.tile, self.tile), rows, columns)


def _scaled(height: int, width: int, longest: int) -> tuple[int, int]:
    """The longer side at `longest`, the shorter in proportion, rounded up to an even number."""
    if width >= height:
        shorter = int(longest / (width / height))
        return max(1, shorter + shorter % 2), longest
    shorter = int(longest * (width / height))
    return longest, max(1, shorter + shorter % 2)


def _tiles(height: int, width: int, tile: int) -> tuple[int, int]:
    """Rows and columns of tiles, both sides a multiple of a tile, the shorter in proportion."""
    ratio = width / height
    if width >= height:
        width = ceil(width / tile) * tile
        height = ceil(int(width / ratio) / tile) * tile
    else:
        height = ceil(height / tile) * tile
        width = ceil(int(height * ratio) / tile) * tile
    return height // tile, width // tile


class LargestMultiple(ImageSizing):
    """The largest size of at most `most` pixels in the image's shape, cut to multiples of `factor`.

    Gemma 4: smaller images grow as well. A side that would vanish is one `factor` long.
    """

    kind: Literal["largest"] = "largest"
    factor: Size
    most: Size

    def pieces(self, height: int, width: int) -> Pieces:
        """One piece; ArchError for an image of which nothing would be left."""
        n, ratio = self.factor, sqrt(self.most / (height * width))
        sides = [floor(ratio * side / n) * n for side in (height, width)]
        longest = self.most // n**2 * n
        if not any(sides):
            what = f"an image of {height} x {width} is not read: {self.most:,} pixels hold no {n} x {n}"
            raise ArchError(what, "state more pixels")
        if not sides[0]:
            sides = [n, min(width // height * n, longest)]
        elif not sides[1]:
            sides = [min(height // width * n, longest), n]
        return Pieces(1, (sides[0], sides[1]))
