"""Mamba-1: a selective state space layer, whose decays differ by channel and state.

B batch, T new tokens, D d_model, d d_inner, N state, R dt_rank, K conv_kernel, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.arith import Number, ceil_div
from archcli.graph import Tensor
from archcli.modules.activation import Activation, SiLU
from archcli.modules.base import Conflict, Size
from archcli.modules.context import Context, or_default
from archcli.modules.mixer import Kept, RecurrenceFacts
from archcli.modules.norm import Norm
from archcli.modules.recurrent.base import Recurrent
from archcli.ops import (
    Activate,
    BlockDiagonal,
    CausalConv1d,
    Linear,
    MergeHeads,
    Multiply,
    SelectiveScan,
    Split,
    SplitHeads,
)

RANK = 16
"""The width of a token for each dimension of its step size, where none is stated."""


class Mamba(Recurrent):
    """Scan with a decay for each channel and state (S6). Gu & Dao 2023, arXiv:2312.00752.

        x = silu(conv(W_x u)), z = W_z u                [d], depthwise over K tokens
        r, B, C = W_s x                                 [R], [N], [N]
        dt = softplus(W_dt r + b)                       [d]
        h_t = exp(-dt e^A_log) h_(t-1) + dt x_t B_t^T   [d, N]
        out = W_o ((h_t C_t + D x_t) silu(z))

    `dt_rank` R left out is D / 16, rounded up. `dt_norm` normalizes r, B and C (Jamba, arXiv:2403.19887;
    Falcon Mamba without weights, arXiv:2410.05355). `n_heads` H splits the channels into heads that have r, B
    and C each of its own (Zamba, arXiv:2405.16712). `activation` is that of the convolution. The state is d N
    elements and the last K inputs of the convolution, whatever the context.
    """

    kind: Literal["mamba"] = "mamba"
    d_inner: Size
    state: Size = 16
    dt_rank: Size | None = None
    n_heads: Size | None = None
    conv_kernel: Size = 4
    conv_bias: bool = True
    bias: bool = False
    activation: Activation = SiLU()
    dt_norm: Norm | None = None

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """A state of N by d, or one for each head."""
        heads = 1 if self.n_heads is None else self.n_heads
        return RecurrenceFacts(heads, self.state, self.d_inner // heads, heads, conv_kernel=self.conv_kernel)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds K inputs [B, K, d] and the state [B, d, N]."""
        cache = or_default(x, context).cache
        u, z = (Linear(f"{name}_proj", self.d_inner, self.bias)(x) for name in ("in", "gate"))
        conv = CausalConv1d("conv", self.conv_kernel, cache is not None, self.conv_bias)
        mixed, *window = conv(u, *(cache or ())[:1])
        channels = self.activation(mixed, name="conv_act")
        rank = ceil_div(x.shape[-1], RANK) if self.dt_rank is None else self.dt_rank
        y, *state = self._scan(channels, rank, cache)
        gated = Multiply("gated")(y, Activate("gate", "silu")(z))
        out = Linear("out_proj", x.shape[-1], self.bias)(gated)
        return out, None if cache is None else (*window, *state)

    def _scan(self, x: Tensor, rank: Number, cache: Kept) -> list[Tensor]:
        """y [B, T, d] of the channels x [B, T, d], and the new state."""
        heads = 1 if self.n_heads is None else self.n_heads
        joint = self._map("x_proj", heads * (rank + 2 * self.state))(x)
        r, b, c = Split("x_split", (rank, self.state, self.state))(self._headed("select", joint))
        if self.dt_norm is not None:
            r, b, c = (
                self.dt_norm(part, name=f"{name}_norm") for name, part in (("dt", r), ("b", b), ("c", c))
            )
        r = r if self.n_heads is None else MergeHeads("dt_merge")(r)
        dt = self._headed("dt", self._map("dt_proj", self.d_inner, bias=True)(r))
        scan = SelectiveScan("scan", self.form, cache is not None)
        y, *state = scan(self._headed("x", x), dt, b, c, *(cache or ())[1:])
        return [y if self.n_heads is None else MergeHeads("merge")(y), *state]

    def _map(self, name: str, out: Number, *, bias: bool = False) -> Linear | BlockDiagonal:
        """A linear map, of each head by itself where there are heads."""
        return (
            Linear(name, out, bias) if self.n_heads is None else BlockDiagonal(name, self.n_heads, out, bias)
        )

    def _headed(self, name: str, x: Tensor) -> Tensor:
        """[B, T, H P] as [B, T, H, P], where there are heads."""
        heads: Tensor = x if self.n_heads is None else SplitHeads(f"{name}_heads", self.n_heads)(x)
        return heads

    def check(self) -> Iterator[Conflict]:
        """Conflict: heads that do not divide the channels."""
        yield from super().check()
        if self.n_heads is not None and self.d_inner % self.n_heads:
            yield Conflict(
                "heads-divide-channels",
                "n_heads",
                f"{self.n_heads} heads do not divide {self.d_inner} channels (d_inner)",
                "each head has the same number of channels",
            )
