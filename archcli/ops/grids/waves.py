"""Ops on sounds: spectrograms and waves with a channel axis, norms over time, convolved positions.

B batch, C channels, F frames, M mel bins, n samples or positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import (
    LAYERNORM_BACKWARD,
    LAYERNORM_FORWARD,
    LAYERNORM_WEIGHT,
    View,
    bias,
    contraction,
)


@dataclass(frozen=True, slots=True, eq=False)
class SpectrogramImage(View):
    """[B, F, M] to [B, 1, M, F]: an image of one channel, as high as there are mel bins."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[2], x[1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.transpose(1, 2).unsqueeze(1)


@dataclass(frozen=True, slots=True, eq=False)
class WaveChannel(View):
    """[B, n] to [B, 1, n]: a wave is one channel."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.unsqueeze(1)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelNormalize(Op):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, each channel over its n positions: x [B, C, n].

    Group normalization with as many groups as channels (arXiv:1803.08494).
    """

    sign: ClassVar[str] = "norm"
    name: str
    eps: float = 1e-5

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[1],), "bias": (x[1],)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), 2 * x[1]
        gradients = (
            Part("d_0", OpClass.NORMALIZATION, LAYERNORM_BACKWARD * n, 2 * n + width, n, wrt=0),
            Part("d_weight", OpClass.NORMALIZATION, LAYERNORM_WEIGHT * n, 2 * n, width, wrt="weight"),
        )
        return (Part("normalize", OpClass.NORMALIZATION, LAYERNORM_FORWARD * n, n + width, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        own = (weights["weight"], weights["bias"])
        return torch.nn.functional.group_norm(x, x.shape[1], *own, self.eps)

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.GroupNorm(x[1], x[1], self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class ConvolvedPositions(Op):
    """A convolution of `groups` groups along x [B, C, n] to [B, C, n // stride]; with stride 1 as long.

    Its taps are gain_k v_k / |v_k|, v [C, C / groups, K] of length |v_k| at each place k (weight
    normalization, arXiv:1602.07868), or without `weight_norm` v itself. wav2vec 2.0, arXiv:2006.11477
    section 2.
    """

    sign: ClassVar[str] = "convolution"
    convolves: ClassVar[bool] = True
    name: str
    kernel: int
    groups: Number
    weight_norm: bool = True
    stride: Number = 1

    def shape(self, x: Shape) -> Shape:
        return (*x[:2], x[2] // self.stride)

    def weights(self, x: Shape) -> dict[str, Shape]:
        taps = (x[1], x[1] // self.groups, self.kernel)
        if not self.weight_norm:
            return {"direction": taps, "bias": (x[1],)}
        return {"gain": (1, 1, self.kernel), "direction": taps, "bias": (x[1],)}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        # what is made beyond n // stride positions is computed and dropped: one with stride 1, an even kernel
        made = x[0] * x[1] * ((x[2] + (self.kernel + 1) % 2 - 1) // self.stride + 1)
        taps = prod(self.weights(x)["direction"])
        flops = 2 * (made // x[1]) * taps
        product = contraction("conv", flops, [(prod(x), 0), (taps, "direction")], made)
        if not self.weight_norm:
            return (product, bias(made, x[1]))
        # squares, their sum and the product with the quotient; of the gradient as many, and one more for v
        gradients = (
            Part("d_direction", OpClass.NORMALIZATION, 4 * taps, 2 * taps, taps, wrt="direction"),
            Part("d_gain", OpClass.NORMALIZATION, 2 * taps, 2 * taps, self.kernel, wrt="gain"),
        )
        scaled = Part("weight_norm", OpClass.NORMALIZATION, 3 * taps, taps + self.kernel, taps, gradients)
        return (scaled, product, bias(made, x[1]))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        taps = weights["direction"]
        if self.weight_norm:
            taps = taps * (weights["gain"] / taps.square().sum((0, 1), keepdim=True).sqrt())
        around = self.kernel // 2
        y = torch.nn.functional.conv1d(x, taps, weights["bias"], self.stride, around, 1, self.groups)
        kept = x.shape[2] // self.stride
        return y if y.shape[2] == kept else y[:, :, :kept]

    def initial(self, weight: str) -> float | None:
        return {"gain": 1.0, "direction": None}.get(weight, 0.0)
