"""Ops of several residual streams beside each other, [B, T, n, D]: AltUp and hyper-connections.

B batch, T new tokens, n streams, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import SOFTMAX_BACKWARD, SOFTMAX_FORWARD, View, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class StreamGates(Op):
    """m_p sigmoid(s_p z + b) + eps for each set p of gates: z [B, T, P n], a set after the other.

    `magnitudes` are the constants m_p; `scale` [P] and `base` [P n] are trained. Forward a product, a sum, a
    sigmoid and a sum with eps an element, and a product where m_p is not 1. The gradient of z has the sigmoid
    and the products, that of s_p a product and a sum, that of b a sum.
    """

    sign: ClassVar[str] = "gates"
    name: str
    magnitudes: tuple[float, ...]
    eps: float

    def weights(self, z: Shape) -> dict[str, Shape]:
        return {"scale": (len(self.magnitudes),), "base": (z[-1],)}

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "scale" else 0.0

    def parts(self, z: Shape) -> tuple[Part, ...]:
        n, sets = prod(z), len(self.magnitudes)
        scaled = n // sets * sum(magnitude != 1.0 for magnitude in self.magnitudes)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 2 * n + scaled, 2 * n + sets, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 2 * n, sets, wrt="scale"),
            summed("base", n, z[-1]),
        )
        return (Part("gates", OpClass.ELEMENTWISE, 4 * n + scaled, n + sets + z[-1], n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], z: Any) -> Any:
        sets = len(self.magnitudes)
        parted = torch.unflatten(z, -1, (sets, -1))
        base = torch.unflatten(weights["base"], 0, (sets, -1))
        gates = torch.sigmoid(parted * weights["scale"][:, None] + base)
        pairs = zip(self.magnitudes, gates.unbind(-2), strict=True)
        pieces = [gate if magnitude == 1.0 else gate * magnitude for magnitude, gate in pairs]
        return torch.cat(pieces, dim=-1) + self.eps


SETS = 3
"""Sets of gates of n streams: n to read, n to return to, n x n to mix them."""


@dataclass(frozen=True, slots=True, eq=False)
class MixingGates(Op):
    """Gates a and c of n streams and a matrix M that mixes them, of logits z [B, T, (2 + n) n].

    a = sigmoid(s_a z + b) + eps [B, T, n], c = m sigmoid(s_c z + b) [B, T, n]. M [B, T, n, n] is softmax(s_M
    z + b) + eps, whose columns, then rows and columns in turn, are divided by their sum plus eps, columns
    `iterations` times: rows and columns come to sum to 1 (Sinkhorn & Knopp 1967). `scale` [3] and `base`
    [(2 + n) n] are trained. Manifold-constrained hyper-connections, arXiv:2512.24880.

    A division by sums is a sum, an addition of eps and a division; its gradient two products, a sum and a
    subtraction.
    """

    sign: ClassVar[str] = "gates"
    name: str
    streams: Number
    magnitude: float
    eps: float
    iterations: int

    def shape(self, z: Shape) -> tuple[Shape, Shape, Shape]:
        gates = (*z[:-1], self.streams)
        return gates, gates, (*gates, self.streams)

    def weights(self, z: Shape) -> dict[str, Shape]:
        return {"scale": (SETS,), "base": (z[-1],)}

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "scale" else 0.0

    def parts(self, z: Shape) -> tuple[Part, ...]:
        n, gates = prod(z), prod(z[:-1]) * self.streams
        # columns are divided first, then rows and columns in turn
        mixing, divided = gates * self.streams, 2 * self.iterations - 1
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n + 3 * gates, n + SETS, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 2 * n, SETS, wrt="scale"),
            summed("base", n, z[-1]),
        )
        back = (SOFTMAX_BACKWARD - 1) * mixing + divided * 4 * mixing
        balanced = Part("d_mix", OpClass.NORMALIZATION, back, 2 * mixing, mixing, wrt=0)
        # a softmax without a scale, and eps added
        forward = (SOFTMAX_FORWARD - 1 + 1) * mixing + divided * 2 * mixing
        return (
            Part("gates", OpClass.ELEMENTWISE, 2 * n + 4 * gates, n + SETS + z[-1], n, gradients),
            Part("balance", OpClass.NORMALIZATION, forward, mixing, mixing, (balanced,)),
        )

    def run(self, torch: Any, weights: dict[str, Any], z: Any) -> Any:
        sizes = [self.streams, self.streams, self.streams * self.streams]
        parts = zip(z.split(sizes, -1), weights["scale"].unbind(0), weights["base"].split(sizes), strict=True)
        gather, back, mix = (part * scale + base for part, scale, base in parts)
        gather = torch.sigmoid(gather) + self.eps
        back = torch.sigmoid(back) * self.magnitude
        mix = torch.softmax(mix.unflatten(-1, (self.streams, self.streams)), dim=-1) + self.eps
        mix = mix / (mix.sum(-2, keepdim=True) + self.eps)
        for _ in range(self.iterations - 1):
            mix = mix / (mix.sum(-1, keepdim=True) + self.eps)
            mix = mix / (mix.sum(-2, keepdim=True) + self.eps)
        return gather, back, mix


@dataclass(frozen=True, slots=True, eq=False)
class CollapseStreams(Op):
    """The sum of streams x [B, T, n, D], each times its gate c [B, T, n]: [B, T, D]."""

    sign: ClassVar[str] = "weighted sum"
    name: str

    def shape(self, x: Shape, c: Shape) -> Shape:
        return (*x[:-2], x[-1])

    def parts(self, x: Shape, c: Shape) -> tuple[Part, ...]:
        n, stream, gates = prod(x), prod(self.shape(x, c)), prod(c)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, stream + gates, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, 2 * n - gates, n + stream, gates, wrt=1),
        )
        # n products; n streams are summed by n - 1 additions
        return (Part("collapse", OpClass.ELEMENTWISE, 2 * n - stream, n + gates, stream, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, c: Any) -> Any:
        return (x * c.unsqueeze(-1)).sum(-2)


SQUARE_AND_ADD = 2
"""A square and an addition: what an element adds to a mean of squares."""


@dataclass(frozen=True, slots=True, eq=False)
class StackStreams(Op):
    """n tensors [B, T, D] as one [B, T, n, D]."""

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "streams"
    name: str

    def shape(self, *xs: Shape) -> Shape:
        return (*xs[0][:-1], len(xs), xs[0][-1])

    def parts(self, *xs: Shape) -> tuple[Part, ...]:
        n = prod(xs[0])
        gradients = tuple(Part(f"d_{i}", OpClass.MOVEMENT, 0, n, n, wrt=i) for i in range(len(xs)))
        return (movement("stack", n * len(xs), n * len(xs), gradients),)

    def run(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        return torch.stack(xs, dim=-2)


@dataclass(frozen=True, slots=True, eq=False)
class TakeStream(View):
    """Stream `index` of [B, T, n, D]: [B, T, D]."""

    sign: ClassVar[str] = "one stream"
    name: str
    index: Number

    def shape(self, x: Shape) -> Shape:
        return (*x[:-2], x[-1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.select(-2, self.index)


@dataclass(frozen=True, slots=True, eq=False)
class MatchMagnitude(Op):
    """y rms(x) / max(rms(y), sqrt(eps)): y as long as x, token by token. Inputs y and x [B, T, D].

    Forward 2 FLOPs an element for each mean of squares, a product and a division. The gradient of y has a
    product of it with y more, summed and subtracted, that of x a sum of dy y and a product.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "magnitude"
    name: str
    eps: float

    def parts(self, y: Shape, x: Shape) -> tuple[Part, ...]:
        n = prod(y)
        gradients = (
            Part("d_0", OpClass.NORMALIZATION, 6 * n, 3 * n, n, wrt=0),
            Part("d_1", OpClass.NORMALIZATION, 3 * n, 3 * n, n, wrt=1),
        )
        flops = 2 * SQUARE_AND_ADD * n + 2 * n
        return (Part("match", OpClass.NORMALIZATION, flops, 2 * n, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], y: Any, x: Any) -> Any:
        target = x.square().mean(-1, keepdim=True).sqrt()
        return y * target / y.square().mean(-1, keepdim=True).clamp(min=self.eps).sqrt()


@dataclass(frozen=True, slots=True, eq=False)
class SpreadStreams(Op):
    """Streams x [B, T, n, D], each with its share c_i of y added: x_i + c_i y; y [B, T, D], c [B, T, n].

    With `meets` y was made of x, whose two gradients are added up.
    """

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "+"
    name: str
    meets: bool = False

    def parts(self, x: Shape, y: Shape, c: Shape) -> tuple[Part, ...]:
        n, stream, shares = prod(x), prod(y), prod(c)
        met = (Part("d_0", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=0),) if self.meets else ()
        gradients = (
            *met,
            Part("d_1", OpClass.ELEMENTWISE, 2 * n - stream, n + shares, stream, wrt=1),
            Part("d_2", OpClass.ELEMENTWISE, 2 * n - shares, n + stream, shares, wrt=2),
        )
        return (Part("spread", OpClass.ELEMENTWISE, 2 * n, n + stream + shares, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, y: Any, c: Any) -> Any:
        return x + y.unsqueeze(-2) * c.unsqueeze(-1)


@dataclass(frozen=True, slots=True, eq=False)
class AddToLater(Op):
    """Streams x [B, T, n, D], y [B, T, D] added to all but the first."""

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "+"
    name: str

    def parts(self, x: Shape, y: Shape) -> tuple[Part, ...]:
        n, stream = prod(x), prod(y)
        # the gradients of the n - 1 later streams, summed by n - 2 additions
        gradient = Part("d_1", OpClass.ELEMENTWISE, n - 2 * stream, n - stream, stream, wrt=1)
        return (Part("add", OpClass.ELEMENTWISE, n - stream, n + stream, n, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, y: Any) -> Any:
        return torch.cat((x[..., :1, :], x[..., 1:, :] + y.unsqueeze(-2)), dim=-2)


@dataclass(frozen=True, slots=True, eq=False)
class MeanStreams(Op):
    """The mean of the streams [B, T, n, D]: [B, T, D]."""

    sign: ClassVar[str] = "mean"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (*x[:-2], x[-1])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, mean = prod(x), prod(self.shape(x))
        gradient = Part("d_0", OpClass.ELEMENTWISE, mean, mean, n, wrt=0)
        # n - 1 additions and a division for each element of the mean
        return (Part("mean", OpClass.ELEMENTWISE, n, n, mean, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.mean(-2)
