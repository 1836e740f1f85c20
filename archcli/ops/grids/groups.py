"""Ops on places that lie alike in patches of a grid, on every s-th place, and on distances of places.

B batch, h and w rows and columns, s side of a patch, N patches of a grid, C channels, G = B s s groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import SOFTMAX_BACKWARD, SOFTMAX_FORWARD, View, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class CutGroups(Op):
    """[B, h, w, C] to [B s s, N, C]: places that lie alike in patches of s x s are a sequence."""

    drawn: ClassVar[str] = "view"
    name: str
    side: int

    def shape(self, x: Shape) -> Shape:
        area = self.side * self.side
        return (x[0] * area, (x[1] // self.side) * (x[2] // self.side), x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("groups", prod(x), prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        s, (b, h, w, c) = self.side, x.shape
        cut = x.reshape(b, h // s, s, w // s, s, c).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(b * s * s, (h // s) * (w // s), c)


@dataclass(frozen=True, slots=True, eq=False)
class JoinGroups(Op):
    """[B s s, N, C] to [B, h, w, C]: the grid of these groups."""

    drawn: ClassVar[str] = "view"
    name: str
    grid: tuple[Number, Number]
    side: int

    def shape(self, x: Shape) -> Shape:
        return (x[0] // (self.side * self.side), *self.grid, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("grid", prod(x), prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        s, (h, w) = self.side, (int(self.grid[0]), int(self.grid[1]))
        cut = x.reshape(-1, s, s, h // s, w // s, x.shape[2]).permute(0, 3, 1, 4, 2, 5)
        return cut.reshape(-1, h, w, x.shape[2])


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxSum(Op):
    """y = sum_n softmax(q)_n k_n for scores q [G, N, 1] and vectors k [G, N, C]: [G, 1, C]."""

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "softmax sum"
    name: str

    def shape(self, q: Shape, k: Shape) -> Shape:
        return (k[0], 1, k[2])

    def parts(self, q: Shape, k: Shape) -> tuple[Part, ...]:
        scores, n, out = prod(q), prod(k), k[0] * k[2]
        # no scale
        softmax = Part(
            "softmax",
            OpClass.NORMALIZATION,
            (SOFTMAX_FORWARD - 1) * scores,
            scores,
            scores,
            (Part("d_0", OpClass.NORMALIZATION, SOFTMAX_BACKWARD * scores, 2 * scores, scores, wrt=0),),
        )
        gradients = (
            Part("d_1", OpClass.ELEMENTWISE, n, out + scores, n, wrt=1),
            # of the shares: a product with each vector, summed over its channels
            Part("d_shares", OpClass.ELEMENTWISE, 2 * n - scores, out + n, scores, wrt=0),
        )
        weighed = Part("sum", OpClass.ELEMENTWISE, 2 * n - out, n + scores, out, gradients)
        return (softmax, weighed)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, k: Any) -> Any:
        return (k * q.softmax(1)).sum(1, keepdim=True)


@dataclass(frozen=True, slots=True, eq=False)
class SumTokens(Op):
    """[B, T, D] to [B, 1, D]: the sum of all tokens."""

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "sum"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, out = prod(x), x[0] * x[2]
        gradient = Part("d_0", OpClass.MOVEMENT, 0, out, n, wrt=0)
        return (Part("sum", OpClass.NORMALIZATION, n, n, out, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.sum(1, keepdim=True)


@dataclass(frozen=True, slots=True, eq=False)
class EveryPlace(View):
    """[B, h, w, C] to [B, (h - 1) // s + 1, (w - 1) // s + 1, C]: every s-th row and column."""

    name: str
    stride: int

    def shape(self, x: Shape) -> Shape:
        h, w = ((n - 1) // self.stride + 1 for n in x[1:3])
        return (x[0], h, w, x[3])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, :: self.stride, :: self.stride]


@dataclass(frozen=True, slots=True, eq=False)
class AbsoluteBias(Op):
    """bias[1, h, i, j] = table[h, |rows| w + |columns|] of query i and key j, places of a grid h x w.

    Inputs are the positions [T] of queries. The table [H, h w] has a number for each distance along rows and
    columns. Queries are every `stride`-th row and column (LeViT, arXiv:2104.01136 section 4.2).
    """

    drawn: ClassVar[str] = "aside"
    name: str
    heads: Number
    grid: tuple[Number, Number]
    stride: int = 1

    def shape(self, positions: Shape) -> Shape:
        return (1, self.heads, positions[0], self.grid[0] * self.grid[1])

    def weights(self, positions: Shape) -> dict[str, Shape]:
        return {"weight": (self.heads, self.grid[0] * self.grid[1])}

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        pairs, places = positions[0] * self.grid[0] * self.grid[1], self.grid[0] * self.grid[1]
        moved = pairs * self.heads
        gradient = summed("weight", moved, places * self.heads, index=pairs)
        return (movement("gather", moved + pairs, moved, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        index = []
        for n in self.grid:
            place = torch.arange(int(n), device=positions.device)
            index.append((place[:: self.stride, None] - place[None, :]).abs())
        rows, columns = index
        place = rows[:, None, :, None] * int(self.grid[1]) + columns[None, :, None, :]
        keys = int(self.grid[0]) * int(self.grid[1])
        return weights["weight"].transpose(0, 1)[place.reshape(-1, keys)].permute(2, 0, 1)[None]
