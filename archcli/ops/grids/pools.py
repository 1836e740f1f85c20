"""Ops on places of a grid: zeros around it, the largest or mean of neighbours, group norms over it.

B batch, h and w rows and columns, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Traits
from archcli.ops import base

Reduction = Literal["max", "mean"]


@dataclass(frozen=True, slots=True, eq=False)
class PadPlaces(Op):
    """[B, h, w, C] to [B, top + h + bottom, left + w + right, C]: zeros around a grid.

    `around` is (left, right, top, bottom).
    """

    drawn: ClassVar[str] = "view"
    name: str
    around: tuple[Number, Number, Number, Number]

    def shape(self, x: Shape) -> Shape:
        left, right, top, bottom = self.around
        return (x[0], top + x[1] + bottom, left + x[2] + right, x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (base.movement("pad", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.nn.functional.pad(x, (0, 0, *map(int, self.around)))


@dataclass(frozen=True, slots=True, eq=False)
class PoolPlaces(Op):
    """The largest or the mean of each `kernel` x `kernel` places, every `stride` of them, by channel.

    [B, h, w, C] to [B, (h + 2 padding - kernel) // stride + 1, likewise w, C]. Places of the padding are
    never the largest, and no part of a mean.
    """

    drawn: ClassVar[str] = "core"
    name: str
    reduction: Reduction
    kernel: int
    stride: int
    padding: int = 0

    @property
    def sign(self) -> str:
        return self.reduction

    def shape(self, x: Shape) -> Shape:
        sides = ((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in x[1:3])
        return (x[0], *sides, x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        out = prod(self.shape(x))
        terms = out * self.kernel * self.kernel
        # the places of the largest are kept; a mean's quotient is handed to each place
        kept = out if self.reduction == "max" else 0
        gradient = Part("d_0", OpClass.NORMALIZATION, terms, out + kept, prod(x), wrt=0)
        divided = 0 if self.reduction == "max" else out
        return (Part(self.reduction, OpClass.NORMALIZATION, terms + divided, prod(x), out, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        # torch's kernels answer in the order of channels that they are given; in one order all do alike
        first, functional = x.permute(0, 3, 1, 2).contiguous(), torch.nn.functional
        if self.reduction == "max":
            pooled = functional.max_pool2d(first, self.kernel, self.stride, self.padding)
        else:
            options = {"ceil_mode": False, "count_include_pad": False}
            pooled = functional.avg_pool2d(first, self.kernel, self.stride, self.padding, **options)
        return pooled.permute(0, 2, 3, 1)


@dataclass(frozen=True, slots=True, eq=False)
class MeanPlaces(Op):
    """[B, h, w, C] to [B, 1, 1, C]: the mean of all places of a channel."""

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "mean"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, 1, x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, out = prod(x), x[0] * x[3]
        # a sum and a division; backward the quotient is handed to each place
        gradient = Part("d_0", OpClass.ELEMENTWISE, out, out, n, wrt=0)
        return (Part("mean", OpClass.NORMALIZATION, n + out, n, out, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.mean(dim=(1, 2), keepdim=True)


@dataclass(frozen=True, slots=True, eq=False)
class OuterPlaces(Op):
    """y = a * b for a number of each place, a [B, h, w, 1], and one of each channel, b [B, 1, 1, C]."""

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "×"
    name: str

    def shape(self, a: Shape, b: Shape) -> Shape:
        return (*a[:3], b[3])

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, places, channels = prod(self.shape(a, b)), prod(a), prod(b)
        # each gradient is a product, summed over what its factor was repeated for
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 2 * n - places, n + channels, places, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, 2 * n - channels, n + places, channels, wrt=1),
        )
        return (Part("multiply", OpClass.ELEMENTWISE, n, places + channels, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return a * b


@dataclass(frozen=True, slots=True, eq=False)
class GroupNormalize(Op):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over all places of each group of channels.

    Group normalization with `groups` groups, arXiv:1803.08494, of a grid [B, h, w, C].
    """

    sign: ClassVar[str] = "norm"
    name: str
    eps: float
    groups: Number = 1

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[3],), "bias": (x[3],)}

    def traits(self, *xs: Shape) -> Traits:
        return Traits(norm="groupnorm")

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), 2 * x[3]
        gradients = (
            Part("d_0", OpClass.NORMALIZATION, base.LAYERNORM_BACKWARD * n, 2 * n + width, n, wrt=0),
            Part("d_weight", OpClass.NORMALIZATION, base.LAYERNORM_WEIGHT * n, 2 * n, width, wrt="weight"),
        )
        flops = base.LAYERNORM_FORWARD * n
        return (Part("normalize", OpClass.NORMALIZATION, flops, n + width, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        own = (weights["weight"], weights["bias"])
        first = x.permute(0, 3, 1, 2).contiguous()
        normed = torch.nn.functional.group_norm(first, self.groups, *own, self.eps)
        return normed.permute(0, 2, 3, 1)

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "weight" else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ResponseNormalize(Op):
    """y = weight * x n_c / (mean of n + eps) + bias + x, n_c the length of channel c over all places.

    Global response normalization of a grid [B, h, w, C], arXiv:2301.00808 section 3.
    """

    sign: ClassVar[str] = "norm"
    name: str
    eps: float

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[3],), "bias": (x[3],)}

    def traits(self, *xs: Shape) -> Traits:
        return Traits(norm="global response")

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), 2 * x[3]
        # a square and a sum for the length; two products and two sums. The gradient: through the length too
        gradients = (
            Part("d_0", OpClass.NORMALIZATION, 9 * n, 2 * n + width, n, wrt=0),
            Part("d_weight", OpClass.NORMALIZATION, 4 * n, 2 * n, width, wrt="weight"),
        )
        return (Part("normalize", OpClass.NORMALIZATION, 6 * n, n + width, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        length = x.square().sum(dim=(1, 2), keepdim=True).sqrt()
        share = length / (length.mean(dim=-1, keepdim=True) + self.eps)
        return weights["weight"] * (x * share) + weights["bias"] + x

    def initial(self, weight: str) -> float | None:
        return 0.0
