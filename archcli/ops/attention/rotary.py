"""Ops of positions: the index of each new token, rotary angles, the rotation, the fixed sinusoid.

B batch, T new tokens, H heads, d head_dim, r rotary dims (even).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import FP32, Call
from archcli.ops.base import ROTATE, elementwise

Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True, slots=True, eq=False)
class Positions(Op):
    """0 … T-1 for ids [B, T] or states [B, T, D]: the positions of a pass that starts at the beginning."""

    drawn: ClassVar[str] = "aside"
    name: str
    zero_cost_reason: ClassVar[str] = "a constant of the input's length"

    def shape(self, x: Shape) -> Shape:
        return (x[1],)

    def trained(self, grads: list[bool], x: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.arange(x.shape[1], device=x.device)


@dataclass(frozen=True, slots=True, eq=False)
class AddConstant(Op):
    """positions + by: a table that keeps its first rows for something else (OPT keeps two)."""

    drawn: ClassVar[str] = "view"
    passes_gradient: ClassVar[bool] = True
    name: str
    by: int

    def parts(self, positions: Shape) -> tuple[Part, ...]:
        n = prod(positions)
        return (Part("shift", OpClass.ELEMENTWISE, n, n, n),)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        return positions + self.by


class Frequencies(Protocol):
    """The source of rotary frequencies, such as the Rope module."""

    def frequencies(self, torch: Any, width: int, positions: Any) -> Any:
        """Radians per position of each of the width/2 pairs."""

    @property
    def marks(self) -> tuple[str, ...]:
        """How they are computed: `RoPE θ 500,000`, `llama3 × 8`."""


@dataclass(frozen=True, slots=True, eq=False)
class RotaryTable(Op):
    """cos and sin, [T, r/2] each, of position * frequency (arXiv:2104.09864), times `factor`.

    `near` is (factor, tokens) where a pass that reaches no further than so many tokens has another factor
    (Phi-3-small). They are computed in fp32. Inputs are positions [T], or those [T, r/2] of each pair (images
    among text), then, if given, a tensor whose dtype they get: no rotation converts them again.
    """

    drawn: ClassVar[str] = "aside"
    dtype_inputs: ClassVar[frozenset[int]] = frozenset({1})
    name: str
    rotary_dim: Number
    source: Frequencies
    factor: float = 1.0
    near: tuple[float, Number] | None = None

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def shape(self, positions: Shape, *like: Shape) -> tuple[Shape, Shape]:
        return ((positions[0], self.rotary_dim // 2),) * 2

    def parts(self, positions: Shape, *like: Shape) -> tuple[Part, ...]:
        n = positions[0] * (self.rotary_dim // 2)
        # the angle, its cosine and its sine, and both times the factor
        per_element = 5 if self._scales else 3
        return (Part("angles", OpClass.ELEMENTWISE, per_element * n, positions[0], 2 * n),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(marks=self.source.marks)

    def space(self, call: Call, positions: Shape, *like: Shape) -> Workspace:
        """Frequencies and angles, and cosines and sines before a factor or in fp32, beside the outputs."""
        pairs, width = self.rotary_dim // 2, call.widths[1] if like else FP32
        n = positions[0] * pairs
        temporary = 3 * FP32 * n if width < FP32 else FP32 * n
        if self._scales:
            temporary = 5 * FP32 * n - 2 * width * n
        return Workspace(FP32 * pairs + temporary)

    @property
    def _scales(self) -> bool:
        """Whether cosines and sines are multiplied."""
        return self.factor != 1.0 or self.near is not None

    def _factor_at(self, torch: Any, positions: Any) -> Any:
        """The attention factor of a pass that ends at the last of these positions."""
        if self.near is None:
            return self.factor
        near, far = (torch.tensor(factor, device=positions.device) for factor in (self.near[0], self.factor))
        # no Python branch: while torch.compile traces, no value is known
        return torch.where(positions[-1] + 1 > self.near[1], far, near)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any, like: Any = None) -> Any:
        frequencies = self.source.frequencies(torch, self.rotary_dim, positions)
        # no name for the converted positions, which are let go at once
        flat = positions.dim() == 1
        angles = (positions.to(torch.float32)[:, None] if flat else positions.to(torch.float32)) * frequencies
        cos, sin = angles.cos(), angles.sin()
        if self._scales:
            factor = self._factor_at(torch, positions)
            cos, sin = cos * factor, sin * factor
        return (cos, sin) if like is None else (cos.to(like.dtype), sin.to(like.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Rotate(Op):
    """Rotate the first r dims of every head, or the `last`: x [B, T, H, d], cos and sin [T, r/2].

    `back` turns the other way, which undoes it.
    Pairs are (i, i + r/2) for `half`, (2i, 2i + 1) for `interleaved`.
    """

    drawn: ClassVar[str] = "rotate"
    follows_run: ClassVar[bool] = True
    name: str
    pairing: Pairing = "half"
    last: bool = False
    back: bool = False

    def parts(self, x: Shape, cos: Shape, sin: Shape) -> tuple[Part, ...]:
        return (elementwise("rotate", prod(x[:-1]) * 2 * cos[-1], ROTATE),)

    def traits(self, *xs: Shape) -> Traits:
        x, cos, _ = xs
        return Traits(rotary_share=2 * cos[-1] / x[-1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any, cos: Any, sin: Any) -> Any:
        width = 2 * cos.shape[-1]
        if cos.dtype != x.dtype:
            cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        cos, sin = cos.unsqueeze(-2), (-sin if self.back else sin).unsqueeze(-2)
        split = x.shape[-1] - width
        before = (x[..., :split],) if self.last and split else ()
        rest = (x[..., width:],) if split and not self.last else ()
        rotated = x[..., split:] if before else x[..., :width] if rest else x
        if self.pairing == "interleaved":
            a, b = rotated[..., ::2], rotated[..., 1::2]
            joined = torch.stack(_turned(torch, a, b, cos, sin), dim=-1).flatten(-2)
            return torch.cat((*before, joined, *rest), dim=-1) if split else joined
        a, b = rotated.chunk(2, dim=-1)
        return torch.cat((*before, *_turned(torch, a, b, cos, sin), *rest), dim=-1)


def _turned(torch: Any, a: Any, b: Any, cos: Any, sin: Any) -> Any:
    """a cos - b sin, and b cos + a sin."""
    return torch.addcmul(a * cos, b, sin, value=-1), torch.addcmul(b * cos, a, sin)


@dataclass(frozen=True, slots=True, eq=False)
class Sinusoid(Op):
    """The fixed table of Vaswani et al. (arXiv:1706.03762 section 3.5) at positions [T]: [T, width].

    sin and cos of position / base^(2i/width); `half` puts all sines first, `interleaved` alternates sine and
    cosine, with `first` cosine the other way round. It is computed in fp32; a second input gives its dtype.
    """

    drawn: ClassVar[str] = "aside"
    sign: ClassVar[str] = "sinusoidal positions"
    dtype_inputs: ClassVar[frozenset[int]] = frozenset({1})
    name: str
    width: Number
    base: float = 10000.0
    pairing: Pairing = "interleaved"
    first: Literal["sine", "cosine"] = "sine"

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return any(grads[:1])  # the second input gives its dtype alone

    def shape(self, positions: Shape, *like: Shape) -> Shape:
        return (positions[0], self.width)

    def parts(self, positions: Shape, *like: Shape) -> tuple[Part, ...]:
        n = positions[0] * self.width
        return (Part("angles", OpClass.ELEMENTWISE, 2 * n, positions[0], n),)

    def run(self, torch: Any, weights: dict[str, Any], positions: Any, like: Any = None) -> Any:
        steps = torch.arange(0, self.width, 2, device=positions.device, dtype=torch.float32)
        angles = positions.to(torch.float32)[:, None] * torch.exp(steps * (-math.log(self.base) / self.width))
        sine, cosine = angles.sin(), angles.cos()
        pair = (sine, cosine) if self.first == "sine" else (cosine, sine)
        table = (
            torch.stack(pair, dim=-1).flatten(-2)
            if self.pairing == "interleaved"
            else torch.cat(pair, dim=-1)
        )
        return table if like is None else table.to(like.dtype)
