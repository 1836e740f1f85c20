"""Ops that put the vectors of images and sounds among those of a text.

B batch, T tokens of the prompt, N vectors of all images and sounds, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, Part
from archcli.ops.base import WHOLE_NUMBERS, View, movement

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
        placed = sum((prod(shape) for shape in features), start=0)
        return (movement("place", placed + prod(ids), placed),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, ids: Any, *features: Any) -> Any:
        vectors = torch.cat(features, dim=1).to(x.dtype)
        here = (ids == self.token)[..., None]
        if self.adds:
            return x + torch.zeros_like(x).masked_scatter(here, vectors)
        return x.masked_scatter(here, vectors)


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
        return torch.stack(turned, dim=-1)[:, list(self.axes)]

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
