"""Ops that make fewer tokens of the patches of an image: neighbours side by side, or their mean.

B batch, T tokens, h and w rows and columns of patches, D width of a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import View, movement, summed

Pair = tuple[Number, Number]


@dataclass(frozen=True, slots=True, eq=False)
class DropTokens(View):
    """[B, T, D] to [B, T - n, D]: the tokens behind the first n."""

    name: str
    number: int

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] - self.number, x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, self.number :]


@dataclass(frozen=True, slots=True, eq=False)
class MergeBlocks(Op):
    """[B, h w, D] to [B, (h // p) (w // q), p q D]: each block of p x q patches becomes one token.

    Rows and columns that fill no block are left out (Mistral 3); where not `whole` zeros fill it (Molmo).
    """

    drawn: ClassVar[str] = "view"
    name: str
    places: Pair
    block: Pair
    whole: bool = True

    def blocks(self) -> Pair:
        """Rows and columns of blocks."""
        (h, w), (p, q) = self.places, self.block
        return (h // p, w // q) if self.whole else (ceil_div(h, p), ceil_div(w, q))

    def shape(self, x: Shape) -> Shape:
        rows, columns = self.blocks()
        return (x[0], rows * columns, self.block[0] * self.block[1] * x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        written = prod(self.shape(x))
        return (movement("merge", written if self.whole else prod(x), written),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        (h, w), (p, q), (rows, columns) = self.places, self.block, self.blocks()
        d = x.shape[-1]
        grid = x.reshape(x.shape[0], h, w, d)
        if not self.whole:
            grid = torch.nn.functional.pad(grid, (0, 0, 0, columns * q - w, 0, rows * p - h))
        grid = grid[:, : rows * p, : columns * q]
        blocks = grid.reshape(x.shape[0], rows, p, columns, q, d).permute(0, 1, 3, 2, 4, 5)
        return blocks.reshape(x.shape[0], rows * columns, p * q * d)


@dataclass(frozen=True, slots=True, eq=False)
class PoolBlocks(Op):
    """[B, h w, D] to [B, (h // p) (w // q), D]: the mean of each block of p x q patches."""

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "mean"
    name: str
    places: Pair
    block: Pair

    def shape(self, x: Shape) -> Shape:
        (h, w), (p, q) = self.places, self.block
        return (x[0], (h // p) * (w // q), x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        out = prod(self.shape(x))
        n = out * self.block[0] * self.block[1]
        # a sum and a division; backward the quotient is handed to each patch
        gradient = Part("d_0", OpClass.ELEMENTWISE, out, out, prod(x), wrt=0)
        return (Part("mean", OpClass.NORMALIZATION, n + out, n, out, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        (h, w), (p, q) = self.places, self.block
        rows, columns, d = h // p, w // q, x.shape[-1]
        grid = x.reshape(x.shape[0], h, w, d)[:, : rows * p, : columns * q]
        return grid.reshape(x.shape[0], rows, p, columns, q, d).mean(dim=(2, 4)).flatten(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class JoinTiles(Op):
    """The tokens [B N, h w, D] of an overview and of tiles in rows and columns as one sequence (Phi-4).

    First those of all tiles, row by row over tiles, as far as `shown`; then a separator, then the overview.
    The vector `row_end` ends each row.
    """

    drawn: ClassVar[str] = "view"
    name: str
    tiles: Pair
    places: Pair
    shown: Pair

    def shape(self, x: Shape) -> Shape:
        (rows, columns), (h, w) = self.shown, self.places
        pieces = self.tiles[0] * self.tiles[1] + 1
        return (x[0] // pieces, rows * (columns + 1) + 1 + h * (w + 1), x[2])

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"row_end": (x[2],), "separator": (x[2],)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        (batch, _, d), (rows, columns), (h, w) = self.shape(x), self.shown, self.places
        kept, ends = batch * (rows * columns + h * w) * d, batch * (rows + h) * d
        gradients = (
            Part("d_0", OpClass.MOVEMENT, 0, kept, prod(x), wrt=0),
            summed("row_end", ends, d),
            summed("separator", batch * d, d),
        )
        return (movement("join", kept + 2 * d, kept + ends + batch * d, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        (rows, columns), (h, w), d = self.tiles, self.places, x.shape[-1]
        pieces = x.reshape(-1, rows * columns + 1, h, w, d)
        tiles = pieces[:, 1:].reshape(-1, rows, columns, h, w, d).transpose(2, 3)
        tiles = tiles.reshape(-1, rows * h, columns * w, d)[:, : self.shown[0], : self.shown[1]]
        ended = []
        for part in (tiles, pieces[:, 0]):
            end = weights["row_end"].expand(*part.shape[:2], 1, d)
            ended.append(torch.cat((part, end), dim=2).flatten(1, 2))
        between = weights["separator"].expand(pieces.shape[0], 1, d)
        return torch.cat((ended[0], between, ended[1]), dim=1)
