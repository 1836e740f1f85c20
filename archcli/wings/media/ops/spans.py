"""Ops on sequences of sound: spans (chunks) of tokens, convolutions over time, frames as an image.

B batch, T tokens, D width, n spans, s tokens of a span, F frames, M mel bins, C channels, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import (
    SOFTMAX_BACKWARD,
    SOFTMAX_FORWARD,
    View,
    bias,
    contraction,
    elementwise,
    movement,
    summed,
)


@dataclass(frozen=True, slots=True, eq=False)
class CutSpans(Op):
    """[B, T, D] to [B n, before + s, D]: spans of s tokens, each with the tokens `before` it.

    Zeros stand before the first token and after the last.
    """

    drawn: ClassVar[str] = "view"
    name: str
    size: Number
    before: Number = 0

    def shape(self, x: Shape) -> Shape:
        return (x[0] * ceil_div(x[1], self.size), self.before + self.size, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("spans", prod(x), prod(self.shape(x))),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        padded = torch.nn.functional.pad(x, (0, 0, self.before, -x.shape[1] % self.size))
        cut = padded.unfold(1, self.before + self.size, self.size).transpose(2, 3)
        return cut.reshape(-1, self.before + self.size, x.shape[2])


@dataclass(frozen=True, slots=True, eq=False)
class JoinSpans(Op):
    """[B n, s, D] to [B, T, D]: concatenate spans, the last cut to T tokens in all."""

    drawn: ClassVar[str] = "view"
    name: str
    length: Number

    def shape(self, x: Shape) -> Shape:
        return (x[0] // ceil_div(self.length, x[1]), self.length, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        kept = prod(self.shape(x))
        return (movement("join", kept, kept),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        number = -(-self.length // x.shape[1])
        return x.reshape(-1, number * x.shape[1], x.shape[2])[:, : self.length].contiguous()


@dataclass(frozen=True, slots=True, eq=False)
class MaskSpans(Op):
    """Mask scores [B n, H, s, S] of spans: padding, and keys beyond `back` and `ahead` of a query.

    length: T, of the sequence.
    before: the keys of a span begin so many tokens before its queries.
    back, ahead: how far a query sees into the past and the future; None is no bound.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    length: Number
    before: Number
    back: Number = None
    ahead: Number = None

    def parts(self, scores: Shape) -> tuple[Part, ...]:
        return (elementwise("mask", prod(scores)),)

    def run(self, torch: Any, weights: dict[str, Any], scores: Any) -> Any:
        size, seen = scores.shape[2:]
        number = -(-self.length // size)
        query = torch.arange(size, device=scores.device)[:, None]
        key = torch.arange(seen, device=scores.device)[None, :] - self.before
        start = torch.arange(number, device=scores.device)[:, None, None] * size
        allowed = (start + key >= 0) & (start + key < self.length)
        if self.back is not None:
            allowed = allowed & (query - key <= self.back)
        if self.ahead is not None:
            allowed = allowed & (key - query <= self.ahead)
        # padding sees itself: the softmax of a fully masked row would be NaN
        allowed = allowed | ((start + query >= self.length) & (query == key))
        hidden = ~allowed[:, None]
        spans = scores.view(-1, number, *scores.shape[1:])
        return spans.masked_fill(hidden, torch.finfo(scores.dtype).min).view(scores.shape)


@dataclass(frozen=True, slots=True, eq=False)
class SpanDistances(Op):
    """bias[b, h, i, j] = s[b, h, i, j - i]: scores by distance, moved to their keys; 0 out of reach.

    s [B, H, T, R] to [B, H, T, S], the shift of Transformer-XL (arXiv:1901.02860 appendix B). Score 0 of a
    query is that of the key `R - 1` before it, if keys begin R - 1 tokens before queries.
    """

    drawn: ClassVar[str] = "aside"
    name: str
    visible: Number

    def shape(self, scores: Shape) -> Shape:
        return (*scores[:3], self.visible)

    def parts(self, scores: Shape) -> tuple[Part, ...]:
        pairs, index = prod(self.shape(scores)), scores[2] * self.visible
        back = summed(0, pairs, prod(scores), index=index)
        return (movement("gather", pairs + index, pairs, (back,)),)

    def run(self, torch: Any, weights: dict[str, Any], scores: Any) -> Any:
        query = torch.arange(scores.shape[2], device=scores.device)[:, None]
        place = torch.arange(self.visible, device=scores.device)[None, :] - query
        inside = (place >= 0) & (place < scores.shape[3])
        index = place.clamp(0, scores.shape[3] - 1).expand(*scores.shape[:2], *place.shape)
        return scores.gather(-1, index).masked_fill(~inside, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class DepthwiseConv1d(Op):
    """Convolution over time of each channel by itself; weight [C, 1, kernel].

    [B, T, C] to [B, T + before + after - kernel + 1, C]. `before` and `after` are zeros at the ends.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "convolution"
    component: ClassVar[str] = "depthwise_conv"
    convolves: ClassVar[bool] = True
    name: str
    kernel: Number
    before: Number
    after: Number
    bias: bool = False

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] + self.before + self.after - self.kernel + 1, x[2])

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[2], 1, self.kernel)} | ({"bias": (x[2],)} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        out, taps = prod(self.shape(x)), x[2] * self.kernel
        product = contraction("conv", 2 * out * self.kernel, [(prod(x), 0), (taps, "weight")], out)
        return (product, bias(out, x[2])) if self.bias else (product,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        padded = torch.nn.functional.pad(x.transpose(1, 2), (self.before, self.after))
        y = torch.nn.functional.conv1d(
            padded, weights["weight"], weights.get("bias"), groups=weights["weight"].shape[0]
        )
        # contiguous here, once: otherwise each matrix product that reads y copies it
        return y.transpose(1, 2).contiguous()


@dataclass(frozen=True, slots=True, eq=False)
class FramesImage(View):
    """[B, F, M] to [B, 1, F, M]: an image of one channel, as high as there are frames."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, x[1], x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.unsqueeze(1)


@dataclass(frozen=True, slots=True, eq=False)
class FlattenFrames(Op):
    """[B, C, F, M] to [B, F, C M]: concatenate the channels of each frame."""

    drawn: ClassVar[str] = "view"
    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[2], x[1] * x[3])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("flatten", prod(x), prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.transpose(1, 2).flatten(2)


@dataclass(frozen=True, slots=True, eq=False)
class RepeatBatch(Op):
    """Repeat x [1, ...] B times, for the B sequences of a second input, whose values are not read."""

    drawn: ClassVar[str] = "view"
    name: str

    def shape(self, x: Shape, like: Shape) -> Shape:
        return (like[0], *x[1:])

    def parts(self, x: Shape, like: Shape) -> tuple[Part, ...]:
        # a view forward: each sequence reads the same vectors
        return (movement("repeat", 0, 0, (summed(0, like[0] * prod(x), prod(x)),)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, like: Any) -> Any:
        return x.expand(like.shape[0], *x.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Softmax(Op):
    """y = exp(x) / sum exp(x) over the last axis."""

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "softmax"
    name: str

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradient = Part("d_0", OpClass.NORMALIZATION, SOFTMAX_BACKWARD * n, 2 * n, n, wrt=0)
        # - 1: SOFTMAX_FORWARD includes the scale of attention scores
        return (Part("softmax", OpClass.NORMALIZATION, (SOFTMAX_FORWARD - 1) * n, n, n, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.softmax(-1)
