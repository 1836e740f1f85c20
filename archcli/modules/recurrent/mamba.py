"""Mamba: selective state space layers, with decays by channel (Mamba-1) or by head (Mamba-2).

B batch, T new tokens, D d_model, d d_inner, N state, R dt_rank, K conv_kernel, H heads, P head_dim, G
groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, ceil_div
from archcli.graph import Tensor
from archcli.modules.attention.mixer import RecurrenceFacts
from archcli.modules.networks.activation import Activation, SiLU
from archcli.modules.networks.norm import Norm
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.values import Length
from archcli.ops import (
    Activate,
    BlockDiagonal,
    CausalConv1d,
    HeadSkip,
    Linear,
    MergeHeads,
    Multiply,
    ScaleParts,
    SelectiveScan,
    Split,
    SplitHeads,
    StateScan,
    StepSize,
)

RANK = 16
"""d_model over dt_rank, where dt_rank is left out."""


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

    title: ClassVar[str] = "Mamba"
    short_title: ClassVar[str] = "Mamba"
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
        # D, not d_inner: dt_rank "auto" of the reference is ceil(d_model / 16)
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
        # BlockDiagonal reads all heads side by side, and splits them itself
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


Projection = Literal["in", "out"]


class Mamba2(Recurrent):
    """Scan with a scalar decay per head. Dao & Gu 2024, arXiv:2405.21060.

        [z, xBC, dt] = W u                          [H P], [H P + 2 G N], [H]
        x, B, C = silu(conv(xBC))                   depthwise over K tokens
        dt = softplus(dt + dt_bias), a = exp(-exp(A_log) dt)
        S_t = a_t S_(t-1) + B_t (dt_t x_t)^T        [N, P] per head
        y_t = S_t^T C_t + D x_t
        out = W_o norm(y silu(z))

    `n_groups` sets of B and C are shared by H / G heads each. `norm` null leaves the gate alone. `step_limit`
    [least, most] bounds dt, null on one side not at all. `bias` true biases both projections, a list those it
    names. `multipliers` are factors on z, x, B, C and dt as they are projected (Falcon-H1, arXiv:2507.22448).
    The state is H P N elements and the last K inputs of the convolution, whatever the context.
    """

    title: ClassVar[str] = "Mamba-2"
    short_title: ClassVar[str] = "Mamba-2"
    kind: Literal["mamba2"] = "mamba2"
    n_heads: Size
    head_dim: Size
    state: Size
    n_groups: Size = 1
    conv_kernel: Size = 4
    chunk: Size = 256
    bias: bool | tuple[Projection, ...] = False
    conv_bias: bool = True
    activation: Activation = SiLU()
    step_limit: Annotated[tuple[float | None, ...], Length(least=2, most=2)] | None = None
    multipliers: Annotated[tuple[float, ...], Length(least=5, most=5)] | None = None
    norm: GatedNorm | None = GatedRMSNorm()

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """H states of N times P."""
        return RecurrenceFacts(
            self.n_heads, self.state, self.head_dim, self.n_groups, self.chunk, self.conv_kernel
        )

    def joined_rows(self) -> Mapping[str, tuple[Number, ...]]:
        """The gate, the convolved channels u, b and c, and the steps."""
        inner, shared = self.n_heads * self.head_dim, self.n_groups * self.state
        return {"in_proj": (inner, inner, shared, shared, self.n_heads), "conv": (inner, shared, shared)}

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds K inputs [B, K, C] and the state [B, H, N, P]."""
        cache = or_default(x, context).cache
        inner, shared = self.n_heads * self.head_dim, self.n_groups * self.state
        widths = (inner, inner + 2 * shared, self.n_heads)
        projected = Linear("in_proj", sum(widths), self._biased("in"))(x)
        if self.multipliers is not None:
            sizes = (inner, inner, shared, shared, self.n_heads)
            projected = ScaleParts("multipliers", sizes, self.multipliers)(projected)
        z, channels, dt = Split("in_split", widths)(projected)
        conv = CausalConv1d("conv", self.conv_kernel, cache is not None, self.conv_bias)
        mixed, *window = conv(channels, *(cache or ())[:1])
        u, b, c = Split("conv_split", (inner, shared, shared))(self.activation(mixed, name="conv_act"))
        y, state = self._scan(u, b, c, dt, cache)
        gate = self.norm(y, z, name="norm") if self.norm else self._gated(y, z)
        out = Linear("out_proj", x.shape[-1], self._biased("out"))(gate)
        return out, None if cache is None else (*window, *state)

    def _biased(self, which: Projection) -> bool:
        return self.bias if isinstance(self.bias, bool) else which in self.bias

    def _scan(self, u: Tensor, b: Tensor, c: Tensor, dt: Tensor, cache: Kept) -> tuple[Tensor, list[Tensor]]:
        """Heads through the scan: y [B, T, H P], and the new state."""
        u = SplitHeads("x_heads", self.n_heads)(u)
        b, c = SplitHeads("b_heads", self.n_groups)(b), SplitHeads("c_heads", self.n_groups)(c)
        least, most = self.step_limit or (None, None)
        dt, decay = StepSize("dt", (least, most))(dt)
        values = Multiply("dt_x")(u, SplitHeads("dt_heads", self.n_heads)(dt))
        scan = StateScan("scan", self.chunk, self.form, cache is not None)
        y, *state = scan(c, b, values, decay, *(cache or ())[1:])
        return MergeHeads("merge")(HeadSkip("D")(y, u)), state

    def _gated(self, y: Tensor, z: Tensor) -> Tensor:
        gated: Tensor = Multiply("gated")(y, self.activation(z, name="gate"))
        return gated

    def check(self) -> Iterator[Conflict]:
        """Conflicts: groups that do not divide the heads, or the channels of the norm; an empty limit."""
        yield from super().check()
        least, most = self.step_limit or (None, None)
        if least is not None and most is not None and least > most:
            what = f"the least step {least} is above the most, {most}"
            yield Conflict("step-limit-order", "step_limit", what, "state [least, most]")
        if self.n_heads % self.n_groups:
            yield Conflict(
                "groups-divide-heads",
                "n_groups",
                f"{self.n_groups} groups do not divide {self.n_heads} heads",
                "each group serves the same number of heads",
            )
        if self.norm is not None:
            yield from self.norm.check_channels(self.n_heads * self.head_dim, "n_heads x head_dim")
