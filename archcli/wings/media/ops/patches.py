"""Ops that turn an image into tokens: convolutions, flattening, tokens in front, means over tokens.

B batch, C channels, H and W height and width, D width of a token, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import View, bias, contraction, movement, summed

Pair = tuple[Number, Number]


@dataclass(frozen=True, slots=True, eq=False)
class Conv2d(Op):
    """Convolution over height and width; weight [out, C / groups, kernel height, kernel width].

    [B, C, H, W] to [B, out, (H + 2 padding - kernel) // stride + 1, likewise W]. With stride = kernel it is a
    product of each patch with one matrix, as a patch embedding is. `groups` = C gives each channel a kernel.
    """

    sign: ClassVar[str] = "convolution"
    convolves: ClassVar[bool] = True
    name: str
    out: Number
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    groups: Number = 1
    bias: bool = True

    def shape(self, x: Shape) -> Shape:
        sides = zip(x[2:], self.kernel, self.stride, self.padding, strict=True)
        return (x[0], self.out, *((n + 2 * pad - kernel) // step + 1 for n, kernel, step, pad in sides))

    def weights(self, x: Shape) -> dict[str, Shape]:
        matrix = {"weight": (self.out, x[1] // self.groups, *self.kernel)}
        return matrix | ({"bias": (self.out,)} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        out, taps = prod(self.shape(x)), prod(self.weights(x)["weight"])
        product = contraction("conv", 2 * (out // self.out) * taps, [(prod(x), 0), (taps, "weight")], out)
        return (product, bias(out, self.out)) if self.bias else (product,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        options = (self.stride, self.padding, 1, self.groups)
        return torch.nn.functional.conv2d(x, weights["weight"], weights.get("bias"), *options)

    def leaf(self, nn: Any, x: Shape) -> Any:
        options = {"groups": self.groups, "bias": self.bias}
        return nn.Conv2d(x[1], self.out, self.kernel, self.stride, self.padding, **options)


@dataclass(frozen=True, slots=True, eq=False)
class FlattenGrid(View):
    """[B, D, h, w] to [B, h w, D]: places row by row become tokens."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[2] * x[3], x[1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class UnflattenGrid(View):
    """[B, h w, D] to [B, D, h, w]: tokens row by row become places."""

    name: str
    places: Pair

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[2], *self.places)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.transpose(1, 2).unflatten(2, self.places)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelsFirst(View):
    """[B, h, w, C] to [B, C, h, w]."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[3], x[1], x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.permute(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelsLast(View):
    """[B, C, h, w] to [B, h, w, C]."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[2], x[3], x[1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.permute(0, 2, 3, 1)


@dataclass(frozen=True, slots=True, eq=False)
class FlattenPlaces(Op):
    """[B, h, w, C] to [B, h w, C]: a copy where the channels lie first in memory."""

    drawn: ClassVar[str] = "view"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] * x[2], x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("flatten", prod(x), prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.flatten(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Patchify(Op):
    """[B, C, H, W] to [B, h w, p q C]: the pixels of each patch of p x q in a row, channels last."""

    drawn: ClassVar[str] = "view"
    name: str
    patch: Pair

    def shape(self, x: Shape) -> Shape:
        h, w = x[2] // self.patch[0], x[3] // self.patch[1]
        return (x[0], h * w, self.patch[0] * self.patch[1] * x[1])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("patchify", prod(self.shape(x)), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        (p, q), (h, w) = self.patch, (x.shape[2] // self.patch[0], x.shape[3] // self.patch[1])
        cut = x[:, :, : h * p, : w * q].reshape(x.shape[0], x.shape[1], h, p, w, q)
        return cut.permute(0, 2, 4, 3, 5, 1).reshape(x.shape[0], h * w, p * q * x.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class TrainedTokens(Op):
    """n trained vectors [B, n, W] for each sequence of x [B, T, D], of which it reads the shape alone.

    `width` W left out is D.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    number: Number
    width: Number = None

    def shape(self, x: Shape) -> Shape:
        return (x[0], *self.weights(x)["weight"])

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (self.number, x[2] if self.width is None else self.width)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        weight = prod(self.weights(x)["weight"])
        # a view forward: each sequence reads the same vectors
        return (movement("repeat", 0, 0, (summed("weight", x[0] * weight, weight),)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return weights["weight"].expand(x.shape[0], *weights["weight"].shape)


@dataclass(frozen=True, slots=True, eq=False)
class PrependTokens(Op):
    """[B, T, D] to [B, n + T, D]: n trained vectors in front, or behind the first `after` tokens.

    `number` n left out is a single vector, stored [D].
    """

    drawn: ClassVar[str] = "concat"
    name: str
    number: Number = None
    after: int = 0

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] + (1 if self.number is None else self.number), x[2])

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": x[2:] if self.number is None else (self.number, x[2])}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        weight, n = prod(self.weights(x)["weight"]), prod(x)
        gradients = (Part("d_0", OpClass.MOVEMENT, 0, n, n, wrt=0), summed("weight", x[0] * weight, weight))
        return (movement("concat", n + weight, n + x[0] * weight, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        weight = weights["weight"]
        tokens = weight.expand(x.shape[0], weight.shape[0] if weight.ndim > 1 else 1, weight.shape[-1])
        before = (x[:, : self.after],) if self.after else ()
        return torch.cat((*before, tokens, x[:, self.after :] if self.after else x), dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class KeepToken(View):
    """[B, T, D] to [B, 1, D]: the token at this place."""

    name: str
    at: int

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, self.at : self.at + 1]


@dataclass(frozen=True, slots=True, eq=False)
class MeanTokens(Op):
    """[B, T, D] to [B, 1, D]: the mean of the tokens behind the first `skipped`."""

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "mean"
    name: str
    skipped: int = 0

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, out = x[0] * (x[1] - self.skipped) * x[2], x[0] * x[2]
        # a sum and a division; backward the quotient is handed to each token
        gradient = Part("d_0", OpClass.ELEMENTWISE, out, out, prod(x), wrt=0)
        return (Part("mean", OpClass.NORMALIZATION, n + out, n, out, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return (x[:, self.skipped :] if self.skipped else x).mean(dim=1, keepdim=True)
