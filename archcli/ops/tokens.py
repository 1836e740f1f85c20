"""Ops that regroup tokens: cut into sequences, joined, padded, swapped with channels.

B batch, T and S tokens, D width of a token, h and w rows and columns of places, G groups of channels C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.ops.base import View, movement


@dataclass(frozen=True, slots=True, eq=False)
class Regroup(View):
    """[B, T, D] as sequences of `tokens` vectors `width` wide, as many as its numbers make."""

    name: str
    tokens: Number
    width: Number

    def shape(self, x: Shape) -> Shape:
        return (prod(x) // (self.tokens * self.width), self.tokens, self.width)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.reshape(-1, self.tokens, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class TakeTokens(View):
    """[B, T, D] to [B, n, D]: the first n tokens."""

    name: str
    number: Number

    def shape(self, x: Shape) -> Shape:
        return (x[0], self.number, x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, : self.number]


@dataclass(frozen=True, slots=True, eq=False)
class PadTokens(Op):
    """[B, T, D] to [B, T + n, D]: n vectors of zeros behind."""

    drawn: ClassVar[str] = "concat"
    name: str
    number: Number

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] + self.number, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, out = prod(x), prod(self.shape(x))
        return (movement("pad", n, out, (Part("d_0", OpClass.MOVEMENT, 0, n, n, wrt=0),)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.nn.functional.pad(x, (0, 0, 0, self.number))


@dataclass(frozen=True, slots=True, eq=False)
class ConcatTokens(Op):
    """Tokens [B, T, D] and [B, S, D] behind them: [B, T + S, D]."""

    drawn: ClassVar[str] = "concat"
    name: str

    def shape(self, a: Shape, b: Shape) -> Shape:
        return (a[0], a[1] + b[1], a[2])

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        gradients = tuple(
            Part(f"d_{i}", OpClass.MOVEMENT, 0, prod(x), prod(x), wrt=i) for i, x in enumerate((a, b))
        )
        return (movement("concat", prod(a) + prod(b), prod(a) + prod(b), gradients),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.cat((a, b), dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class JoinNeighbours(Op):
    """[B, T, D] to [B, T, (2 n + 1) D]: each token between its neighbours, n to each side, the next first.

    Zeros stand in for what lies beyond the ends.
    """

    drawn: ClassVar[str] = "concat"
    name: str
    reach: Number

    def shape(self, x: Shape) -> Shape:
        return (*x[:2], (2 * self.reach + 1) * x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, out = prod(x), prod(self.shape(x))
        # every token is read by itself and by its neighbours: their gradients are added up
        back = Part("d_0", OpClass.ELEMENTWISE, out - n, out, n, wrt=0)
        return (movement("join", n, out, (back,)),)

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the tokens with zeros beyond the ends."""
        return Workspace(width * x[0] * (x[1] + 2 * self.reach) * x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        padded = torch.nn.functional.pad(x, (0, 0, self.reach, self.reach))
        places = range(2 * self.reach, -1, -1)
        return torch.cat([padded[:, place : place + x.shape[1]] for place in places], dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelTokens(View):
    """[B, h, w, C] to [B, C / G, G, h w]: channels as tokens, G heads as wide as there are places."""

    name: str
    groups: Number

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[3] // self.groups, self.groups, x[1] * x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        b, h, w, c = x.shape
        return x.reshape(b, h * w, self.groups, c // self.groups).permute(0, 3, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class JoinChannels(Op):
    """[B, C / G, G, h w] back to [B, h, w, C]."""

    drawn: ClassVar[str] = "view"
    name: str
    grid: tuple[Number, Number]

    def shape(self, x: Shape) -> Shape:
        return (x[0], *self.grid, x[1] * x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("join", prod(x), prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        b, channels, groups, _ = x.shape
        return x.permute(0, 3, 2, 1).reshape(b, *self.grid, groups * channels)
