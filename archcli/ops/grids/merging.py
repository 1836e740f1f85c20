"""Ops that make fewer tokens of the patches of an image: neighbours side by side, or their mean.

B batch, T tokens, h and w rows and columns of patches, D width of a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import View, movement

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
        made = prod(self.shape(x))
        return (movement("merge", made if self.whole else prod(x), made),)

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
