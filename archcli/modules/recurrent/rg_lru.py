"""RG-LRU: the recurrent block of Griffin and Hawk, with one decay per channel.

B batch, T new tokens, D d_model, W width, K conv_kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import RecurrenceFacts
from archcli.modules.networks.activation import Activation, GELUTanh
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import (
    Activate,
    BlockDiagonal,
    CausalConv1d,
    DiagonalScan,
    GatedDecay,
    Linear,
    Multiply,
)


class RGLRU(Recurrent):
    """Real-gated linear recurrent unit. De et al. 2024, arXiv:2402.19427 section 2.4; RecurrentGemma.

        x = conv(W_x u), y = gelu(W_y u)                 [W], depthwise over K tokens
        r, i = sigmoid(W_r x + b_r), sigmoid(W_i x + b_i)    both block-diagonal
        a = exp(-8 softplus(Lambda) r)
        h_t = a_t h_(t-1) + sqrt(1 - a_t^2) (i_t x_t)
        out = W_o (h y)

    Each gate's matrix has `n_blocks` blocks. The state is W elements and the last K inputs of the
    convolution, whatever the context.
    """

    title: ClassVar[str] = "RG-LRU"
    short_title: ClassVar[str] = "RG-LRU"
    kind: Literal["rg_lru"] = "rg_lru"
    width: Size
    n_blocks: Size
    conv_kernel: Size = 4
    activation: Activation = GELUTanh()

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """A number for each channel."""
        return RecurrenceFacts(self.width, 1, 1, conv_kernel=self.conv_kernel)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds K inputs [B, K, W] and the state [B, W]."""
        context = or_default(x, context)
        cache, keep = context.cache, context.cache is not None
        gate = self.activation(Linear("gate_proj", self.width, bias=True)(x), name="gate")
        u = Linear("in_proj", self.width, bias=True)(x)
        u, *window = CausalConv1d("conv", self.conv_kernel, keep)(u, *(cache or ())[:1])
        r, i = (
            Activate(f"{name}_act", "sigmoid")(BlockDiagonal(name, self.n_blocks, self.width, bias=True)(u))
            for name in ("recurrent_gate", "input_gate")
        )
        # positions: the token at 0 has no state before it, and its input is not scaled (RecurrentGemma)
        decay, added = GatedDecay("decay")(r, Multiply("gated_input")(u, i), context.positions)
        h, *state = DiagonalScan("scan", self.form, keep)(decay, added, *(cache or ())[1:])
        out = Linear("out_proj", x.shape[-1], bias=True)(Multiply("gated")(h, gate))
        return out, None if cache is None else (*window, *state)

    def check(self) -> Iterator[Conflict]:
        """Conflict: blocks that do not divide the width."""
        yield from super().check()
        if self.width % self.n_blocks:
            yield Conflict(
                "blocks-divide-width",
                "n_blocks",
                f"{self.n_blocks} blocks do not divide a width of {self.width}",
                "each block has the same number of channels",
            )
