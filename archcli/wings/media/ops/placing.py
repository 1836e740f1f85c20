"""Ops that put the vectors of images and sounds among those of a text.

B batch, T tokens of the prompt, N vectors of all images and sounds, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import WHOLE_NUMBERS, View, elementwise, movement, summed
from archcli.wings.media.ops.places import PER_ELEMENT

BILINEAR = PER_ELEMENT["bilinear"]
Grids = tuple[tuple[int, int], ...]
"""Rows and columns of vectors of each image, in the order of the prompt."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinPieces(View):
    """[B n, T, D] to [B, n T, D]: the vectors of the n pieces of an image, one after the other."""

    name: str
    number: int

    def shape(self, x: Shape) -> Shape:
        return (x[0] // self.number, self.number * x[1], x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.reshape(-1, self.number * x.shape[1], x.shape[2])


@dataclass(frozen=True, slots=True, eq=False)
class PlaceFeatures(Op):
    """x [B, T, D] with features [B, N_i, D] in the place of the N tokens whose id is `token`, in order.

    Inputs x, ids [B, T], then the features of each image or sound. With `adds` they are added to what
    stands there (deepstack, arXiv:2406.04334).
    """

    name: str
    token: int
    adds: bool = False

    def shape(self, x: Shape, ids: Shape, *features: Shape) -> Shape:
        return x

    def parts(self, x: Shape, ids: Shape, *features: Shape) -> tuple[Part, ...]:
        sizes = [prod(shape) for shape in features]
        placed = sum(sizes[1:], start=sizes[0])
        # a replaced token gets no gradient; if vectors are added to tokens, both get all of it
        replaced = Part("d_0", OpClass.MOVEMENT, 0, 0, 0 if self.adds else placed, wrt=0)
        moved = [
            Part(f"d_{i}", OpClass.MOVEMENT, 0, size, size, wrt=i) for i, size in enumerate(sizes, start=2)
        ]
        place = movement("place", placed + prod(ids), placed, (replaced, *moved))
        added = Part("add", OpClass.ELEMENTWISE, placed, 2 * placed, placed)
        return (place, added) if self.adds else (place,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, ids: Any, *features: Any) -> Any:
        vectors = torch.cat(features, dim=1).to(x.dtype)
        here = (ids == self.token)[..., None]
        if self.adds:
            return x + torch.zeros_like(x).masked_scatter(here, vectors)
        return x.masked_scatter(here, vectors)


@dataclass(frozen=True, slots=True, eq=False)
class Spans(Op):
    """The number of the image [T] that a token belongs to, -1 for one of text; with `prompt` 0 for all.

    Tokens of one number see each other in both directions (Gemma 3, arXiv:2503.19786 section 2.1; PaliGemma,
    arXiv:2407.07726 section 3.2). Input: ids [B, T] of sequences with images at equal places; tokens of an
    image follow each other, and their id is `token`.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    token: int
    prompt: bool = False
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def shape(self, ids: Shape) -> Shape:
        return (ids[1],)

    def trained(self, grads: list[bool], ids: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], ids: Any) -> Any:
        if self.prompt:
            return torch.zeros_like(ids[0])
        here = (ids[0] == self.token).long()
        starts = torch.cat((here[:1], (here[1:] - here[:-1]).clamp(min=0)))
        return torch.where(here.bool(), starts.cumsum(0) - 1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class UnpadTiles(Op):
    """Vectors [B, 1 + R C, h w, D] of an overview and R x C tiles as those of an image, and ends of rows.

    Inputs are the pieces [B n, h w, D] and the vector [D] that ends each row (LLaVA-1.6). `inner` are the
    first and the last row and column of the grid of tiles that are no padding; `resized` rows and columns
    that the rest is interpolated to (LLaVA-OneVision, arXiv:2408.03326 section 3.2).
    """

    name: str
    tiles: tuple[int, int]
    places: tuple[int, int]
    inner: tuple[tuple[int, int], tuple[int, int]]
    resized: tuple[int, int] | None = None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of vectors, without the ends of rows."""
        (top, bottom), (left, right) = self.inner
        return self.resized or (bottom - top, right - left)

    def shape(self, x: Shape, end: Shape) -> Shape:
        rows, columns = self.grid
        number = 1 + self.tiles[0] * self.tiles[1]
        return (x[0] // number, x[1] + rows * (columns + 1), x[2])

    def parts(self, x: Shape, end: Shape) -> tuple[Part, ...]:
        batch, total, width = self.shape(x, end)
        rows, columns = self.grid
        resized = batch * rows * columns * width
        ends = batch * rows * width
        out = batch * total * width
        back = Part("d_0", OpClass.MOVEMENT, 0, out - ends, out - ends, wrt=0)
        join = movement("join", out - ends + width, out, (back, summed(1, ends, width)))
        return (join,) if self.resized is None else (elementwise("resize", resized, BILINEAR), join)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, end: Any) -> Any:
        (rows, columns), (h, w), d = self.tiles, self.places, x.shape[-1]
        pieces = x.reshape(-1, 1 + rows * columns, h * w, d)
        tiles = pieces[:, 1:].reshape(-1, rows, columns, h, w, d).permute(0, 5, 1, 3, 2, 4)
        (top, bottom), (left, right) = self.inner
        image = tiles.reshape(-1, d, rows * h, columns * w)[:, :, top:bottom, left:right]
        if self.resized is not None:
            image = torch.nn.functional.interpolate(image, self.resized, mode="bilinear")
        ends = end[:, None, None].expand(*image.shape[:-1], 1)
        ended = torch.cat((image, ends.to(image.dtype)), dim=-1).flatten(2).transpose(1, 2)
        return torch.cat((pieces[:, 0], ended), dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class PairPositions(Op):
    """The position [T, r/2] of each pair of a rotary head: by time, row or column, as `axes` say.

    Multimodal rotary positions (M-RoPE, arXiv:2409.12191 section 2.1): a token of text has one position in
    all three axes, the next after the largest before it. The vectors of an image, which stand where an id is
    `token`, have the position of its start in time, and beside it their row and column. Input: ids [B, T] of
    sequences with images at equal places.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    token: int
    grids: Grids
    axes: tuple[int, ...]
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def shape(self, ids: Shape) -> Shape:
        return (ids[1], len(self.axes))

    def trained(self, grads: list[bool], ids: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], ids: Any) -> Any:
        text = (ids[0] != self.token).long()
        before = text.cumsum(0) - text
        vectors = (1 - text).cumsum(0)
        starts, rows, columns, ends = self._tables(torch, ids.device)
        # a token of text stands behind whole images, whose sides move it on
        moved = before + ends[vectors]
        image = before + starts[(vectors - 1).clamp(min=0)]
        which = (vectors - 1).clamp(min=0)
        placed = [image, image + rows[which], image + columns[which]]
        turned = [torch.where(text.bool(), moved, axis) for axis in placed]
        return torch.stack([turned[axis] for axis in self.axes], dim=-1)

    def _tables(self, torch: Any, device: Any) -> tuple[Any, ...]:
        """Of each vector its image's start, its row and its column; and how far so many vectors move text."""
        starts, rows, columns, ends, moved = [], [], [], [0], 0
        for height, width in self.grids:
            places = [(i, j) for i in range(height) for j in range(width)]
            starts += [moved] * len(places)
            rows += [row for row, _ in places]
            columns += [column for _, column in places]
            moved += max(height, width)
            ends += [moved] * len(places)
        # on meta the ids say nothing
        lists = (starts or [0], rows or [0], columns or [0], ends)
        return tuple(torch.tensor(numbers, device=device) for numbers in lists)
