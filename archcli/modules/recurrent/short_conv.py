"""Gated short convolution: a mixer whose only memory is its last inputs.

B batch, T new tokens, D d_model, K taps of the convolution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer, MixerFacts, RecurrenceFacts
from archcli.modules.spec.base import Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import CausalConv1d, Linear, Multiply, Split


class ShortConvolution(Mixer):
    """out_proj(c * conv(b * x')) with [b, c, x'] = in_proj x, three times D wide.

    LFM2, arXiv:2511.23404.

    The convolution is causal, of K `conv_kernel` taps, and each channel has its own. `bias` biases both
    projections, `conv_bias` the convolution. Its state is the last K inputs of the convolution [B, K, D],
    however many tokens came before.
    """

    title: ClassVar[str] = "Gated short convolution"
    short_title: ClassVar[str] = "short conv"
    group: ClassVar[str] = "recurrent"
    kind: Literal["short_conv"] = "short_conv"
    conv_kernel: Size = 3
    bias: bool = False
    conv_bias: bool = False

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of a convolution: no scores, no position, K taps."""
        state = RecurrenceFacts(conv_kernel=self.conv_kernel)
        return replace(super().facts(d_model), pattern="convolution", recurrence=state)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds the K last inputs of the convolution."""
        cache, width = or_default(x, context).cache, x.shape[-1]
        keep = cache is not None
        b, c, value = Split("split", (width,) * 3)(Linear("in_proj", 3 * width, self.bias)(x))
        conv = CausalConv1d("conv", self.conv_kernel, keep, self.conv_bias)
        mixed, *last = conv(Multiply("gated_in")(b, value), *(cache or ()))
        y: Tensor = Linear("out_proj", width, self.bias)(Multiply("gated_out")(c, mixed))
        return y, tuple(last) if keep else None
