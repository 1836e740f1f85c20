"""Ops that add trained position tables to tokens: of tiles, of rows and columns; and gates.

B batch, T tokens, D width of a token, h and w rows and columns of places, t tiles, n tokens of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import contraction, summed


@dataclass(frozen=True, slots=True, eq=False)
class TanhScale(Op):
    """y = tanh(g) x for one trained number g, which starts at 0."""

    drawn: ClassVar[str] = "scale"
    sign: ClassVar[str] = "tanh g"
    name: str

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"gate": (1,)}

    def initial(self, weight: str) -> float | None:
        return 0.0

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + 1, n, wrt=0),
            Part("d_gate", OpClass.NORMALIZATION, 2 * n, 2 * n, 1, wrt="gate"),
        )
        return (Part("scale", OpClass.ELEMENTWISE, n, n + 1, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * weights["gate"].tanh()


@dataclass(frozen=True, slots=True, eq=False)
class AddTileTable(Op):
    """x + tanh(g) E[a]: x [B t, T, D], E[a] a vector for each of t tiles, for an arrangement a of tiles.

    The table has `arrangements` of them, in rows of t D numbers; the last is read.
    """

    drawn: ClassVar[str] = "unary"
    name: str
    tiles: Number
    arrangements: Number

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (self.arrangements, self.tiles * x[2]), "gate": (1,)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, table = prod(x), self.tiles * x[2]
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 0, n, n, wrt=0),
            summed("weight", n, table),
            Part("d_gate", OpClass.NORMALIZATION, 2 * table, 2 * table, 1, wrt="gate"),
        )
        return (Part("add", OpClass.ELEMENTWISE, n + table, n + table + 1, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        of_tiles = (weights["weight"][-1] * weights["gate"].tanh()).reshape(self.tiles, 1, x.shape[2])
        return (x.reshape(-1, self.tiles, *x.shape[1:]) + of_tiles).reshape(x.shape)


@dataclass(frozen=True, slots=True, eq=False)
class AddTilePlaces(Op):
    """x + (1 - tanh g) P + tanh(g) Q[a]: x [B t, T, D], P [T, D], Q[a] [t, T, D] of an arrangement a.

    The table Q has `arrangements` rows of t T D numbers; the last is read. Llama 3.2 Vision.
    """

    drawn: ClassVar[str] = "unary"
    name: str
    tiles: Number
    arrangements: Number

    def weights(self, x: Shape) -> dict[str, Shape]:
        places = x[1] * x[2]
        return {"weight": x[1:], "tiles": (self.arrangements, self.tiles * places), "gate": (1,)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, places = prod(x), x[1] * x[2]
        tables = places + self.tiles * places
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 0, n, n, wrt=0),
            summed("weight", n, places),
            summed("tiles", n, self.tiles * places),
            Part("d_gate", OpClass.NORMALIZATION, 2 * tables, 2 * tables, 1, wrt="gate"),
        )
        return (Part("add", OpClass.ELEMENTWISE, 2 * n + tables, n + tables + 1, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        share = weights["gate"].tanh()
        of_tiles = (weights["tiles"][-1] * share).reshape(self.tiles, *x.shape[1:])
        y = x + weights["weight"] * (1 - share)
        return (y.reshape(-1, self.tiles, *x.shape[1:]) + of_tiles).reshape(x.shape)


@dataclass(frozen=True, slots=True, eq=False)
class PairPadding(Op):
    """The bias [1, 1, T, T] that masks pairs of two padding vectors: an outer product.

    Of each `padded` vectors the first `tokens` are no padding. Input positions [T].
    """

    drawn: ClassVar[str] = "aside"
    name: str
    tokens: Number
    padded: Number

    def trained(self, grads: list[bool], positions: Shape) -> bool:
        return False

    def shape(self, positions: Shape) -> Shape:
        # one bias for all heads: one per head would take H times the memory
        return (1, 1, positions[0], positions[0])

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        pairs = positions[0] * positions[0]
        product = contraction("pairs", 2 * pairs, [], pairs)
        return (product, Part("mask", OpClass.ELEMENTWISE, pairs, pairs, pairs))

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        padding = (positions % self.padded >= self.tokens).float()
        least = torch.finfo(padding.dtype).min
        pairs = (padding[:, None] @ padding[None, :]) * least
        return pairs[None, None]


@dataclass(frozen=True, slots=True, eq=False)
class AddGridTables(Op):
    """x [B, h w, D] plus [column | row], half as wide each, by tables of `entries` rows and columns.

    Without entries the halves are fixed: sines and cosines of place times 10000^(-4 i/D), D/4 of each
    (arXiv:2111.06377). `frame` adds the sinusoids of place 0 too, that of a single frame: 0 and 1 in turn.
    Florence-2.
    """

    drawn: ClassVar[str] = "unary"
    name: str
    grid: tuple[Number, Number]
    entries: Number | None
    frame: bool = False

    def weights(self, x: Shape) -> dict[str, Shape]:
        if self.entries is None:
            return {}
        half = x[2] // 2
        return {"rows": (self.entries, half), "columns": (self.entries, x[2] - half)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        table = x[1] * x[2]
        gradients: tuple[Part, ...] = (
            Part("d_0", OpClass.ELEMENTWISE, 0, n, n, wrt=0),
            summed("rows", x[0] * x[1] * (x[2] // 2), self.grid[0] * (x[2] // 2)),
            summed("columns", x[0] * x[1] * (x[2] - x[2] // 2), self.grid[1] * (x[2] - x[2] // 2)),
        )
        gradients = gradients[:1] if self.entries is None else gradients
        flops = n + (n if self.frame else 0)
        return (Part("add", OpClass.ELEMENTWISE, flops, n + table, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        h, w = self.grid
        if self.entries is None:
            rows, columns = (_waves(torch, n, x) for n in (h, w))
        else:
            rows, columns = weights["rows"][:h], weights["columns"][:w]
        of_columns = columns[None].expand(h, *columns.shape)
        of_rows = rows[:, None].expand(h, w, rows.shape[1])
        y = x + torch.cat((of_columns, of_rows), dim=-1).flatten(0, 1)
        if not self.frame:
            return y
        return y + (torch.arange(x.shape[2], device=x.device) % 2).to(x.dtype)


def _waves(torch: Any, n: Any, like: Any) -> Any:
    """Sines, then cosines of n places, [n, D/2]."""
    number = like.shape[2] // 4
    steps = torch.arange(number, device=like.device, dtype=torch.float32) / number
    angles = torch.arange(n, device=like.device, dtype=torch.float32)[:, None] * 10000.0**-steps
    return torch.cat((angles.sin(), angles.cos()), dim=-1).to(like.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class AxisBias(Op):
    """bias[b, h, i, j] = q_i . (rows[row i - row j] + columns[column i - column j]), q [B, T, H, d].

    T places of a `grid` of r x c, row by row; the tables have vectors of 2 r - 1 and 2 c - 1 differences.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    grid: tuple[Number, Number]

    def shape(self, q: Shape) -> Shape:
        return (q[0], q[2], q[1], q[1])

    def weights(self, q: Shape) -> dict[str, Shape]:
        return {name: (2 * n - 1, q[3]) for name, n in zip(("rows", "columns"), self.grid, strict=True)}

    def parts(self, q: Shape) -> tuple[Part, ...]:
        queries = prod(q[:3])
        products = tuple(
            contraction(name, 2 * queries * n * q[3], [(prod(q), 0), (shape[0] * q[3], name)], queries * n)
            for (name, shape), n in zip(self.weights(q).items(), self.grid, strict=True)
        )
        out = prod(self.shape(q))
        # the gradient of a sum over (row, column) pairs is summed along each axis
        partial = queries * sum(self.grid)
        spread = Part("d_0", OpClass.NORMALIZATION, 2 * out, 2 * out, partial, wrt=0)
        return (*products, Part("sum", OpClass.ELEMENTWISE, out, partial, out, (spread,)))

    def run(self, torch: Any, weights: dict[str, Any], q: Any) -> Any:
        h, w = self.grid
        picked = []
        for name, n in (("rows", h), ("columns", w)):
            place = torch.arange(n, device=q.device)
            picked.append(weights[name][place[:, None] - place[None, :] + (n - 1)])
        places = q.unflatten(1, (h, w))
        of_rows = torch.einsum("bijhd,ikd->bhijk", places, picked[0])
        of_columns = torch.einsum("bijhd,jkd->bhijk", places, picked[1])
        return (of_rows[..., :, None] + of_columns[..., None, :]).flatten(4, 5).flatten(2, 3)
