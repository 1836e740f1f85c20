"""Mamba-2 as an outsider would add it: two operations and a mixer, no line of archcli changed.

Dao and Gu 2024, arXiv:2405.21060, counted in its recurrent form.

B batch, T new tokens, D d_model, H heads, P head_dim, N d_state, G groups of B and C, K taps of the
convolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Inherit, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Activate, Linear, MergeHeads, Multiply, Split, SplitHeads
from archcli.ops.base import bias, contraction, elementwise


@dataclass(frozen=True, slots=True, eq=False)
class CausalConv(Op):
    """y_t = sum_i w_i x_(t-K+1+i) + bias for each channel.

    x [B, T, C], then the cached K inputs if there are any.
    """

    component: ClassVar[str] = "short_conv"
    name: str
    kernel: Number
    keep: bool

    def shape(self, x: Shape, last: Shape | None = None) -> Any:
        return (x, (x[0], self.kernel, x[2])) if self.keep else (x,)

    def weights(self, x: Shape, last: Shape | None = None) -> dict[str, Shape]:
        return {"weight": (x[2], self.kernel), "bias": (x[2],)}

    def parts(self, x: Shape, last: Shape | None = None) -> tuple[Part, ...]:
        n, taps = prod(x), x[2] * self.kernel
        return (contraction("conv", 2 * n * self.kernel, [(n, 0), (taps, "weight")], n), bias(n, x[2]))

    def states(self, x: Shape, last: Shape | None = None) -> tuple[State, ...]:
        return (State(x[0] * self.kernel * x[2], StateKind.FIXED),) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, last: Any = None) -> Any:
        before = x.new_zeros(x.shape[0], self.kernel, x.shape[2]) if last is None else last
        joined = torch.cat([before, x], dim=1)
        windows = joined[:, 1:].unfold(1, self.kernel, 1).permute(2, 0, 1, 3)
        y = windows.flatten(1, 2) @ weights["weight"].unsqueeze(-1)
        y = y.view(x.shape[2], *x.shape[:2]).permute(1, 2, 0) + weights["bias"]
        return (y, joined[:, -self.kernel :]) if self.keep else (y,)


@dataclass(frozen=True, slots=True, eq=False)
class StateScan(Op):
    """S_t = a_t S_(t-1) + dt_t x_t B_t^T, y_t = S_t C_t + skip x_t.

    With a_t = exp(-exp(A_log) dt_t), dt = softplus(dt + bias).

    x [B, T, H, P], B and C [B, T, G, N], dt [B, T, H], then the cached S [B, H, P, N] if there is one.
    """

    component: ClassVar[str] = "recurrence"
    name: str
    keep: bool

    def shape(self, x: Shape, b: Shape, c: Shape, dt: Shape, *state: Shape) -> Any:
        return (x, (x[0], *x[2:], b[3])) if self.keep else (x,)

    def weights(self, x: Shape, b: Shape, c: Shape, dt: Shape, *state: Shape) -> dict[str, Shape]:
        return dict.fromkeys(("A_log", "skip", "dt_bias"), (x[2],))

    def parts(self, x: Shape, b: Shape, c: Shape, dt: Shape, *state: Shape) -> tuple[Part, ...]:
        n, sums = prod(x), prod(x) * b[3]
        return (
            contraction("state", 2 * sums, [(n, 0), (prod(b), 1)], sums),
            Part(
                "decay",
                OpClass.ELEMENTWISE,
                sums,
                sums,
                sums,
                (Part("d", OpClass.ELEMENTWISE, sums, sums, sums),),
            ),
            contraction("readout", 2 * sums, [(sums, (0, 1, 3)), (prod(c), 2)], n),
            elementwise("skip", n, 2),
        )

    def states(self, x: Shape, b: Shape, c: Shape, dt: Shape, *state: Shape) -> tuple[State, ...]:
        return tuple(State(prod(kept), StateKind.FIXED) for kept in self.shape(x, b, c, dt)[1:])

    def run(self, torch: Any, weights: dict[str, Any], x: Any, b: Any, c: Any, dt: Any, *state: Any) -> Any:
        dt = torch.nn.functional.softplus(dt + weights["dt_bias"])
        decay = torch.exp(-torch.exp(weights["A_log"]) * dt)[..., None, None]
        b, c = (y.repeat_interleave(x.shape[2] // y.shape[2], dim=2) for y in (b, c))
        updates = (x * dt.unsqueeze(-1)).unsqueeze(-1) @ b.unsqueeze(-2)
        sums = [state[0] if state else torch.zeros_like(updates[:, 0])]
        for t in range(x.shape[1]):
            sums.append(decay[:, t] * sums[-1] + updates[:, t])
        y = (torch.stack(sums[1:], dim=1) @ c.unsqueeze(-1)).squeeze(-1) + weights["skip"].unsqueeze(-1) * x
        return (y, sums[-1]) if self.keep else (y,)


class OutsiderSSD(Mixer):
    """out_proj(norm(SSD(conv(x, B, C), dt) * silu(z))) with z, x, B, C and dt projected from the tokens."""

    group: ClassVar[str] = "recurrent"
    kind: Literal["outsider_ssd"] = "outsider_ssd"
    n_heads: Size
    head_dim: Size
    d_state: Size
    n_groups: Size = 1
    conv_kernel: Size = 4
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D].

        The cache holds K inputs [B, K, C] of the convolution and the state [B, H, P, N].
        """
        cache = or_default(x, context).cache
        inner, shared = self.n_heads * self.head_dim, self.n_groups * self.d_state
        keep = cache is not None
        projected = Linear("in_proj", 2 * inner + 2 * shared + self.n_heads)(x)
        z, channels, dt = Split("in_split", (inner, inner + 2 * shared, self.n_heads))(projected)
        mixed, *last = CausalConv("conv", self.conv_kernel, keep)(channels, *(cache or ())[:1])
        split = Split("conv_split", (inner, shared, shared))(Activate("conv_act", "silu")(mixed))
        heads = (("x", self.n_heads), ("b", self.n_groups), ("c", self.n_groups))
        xbc = [SplitHeads(f"{name}_heads", n)(part) for (name, n), part in zip(heads, split, strict=True)]
        y, *state = StateScan("scan", keep)(*xbc, dt, *(cache or ())[1:])
        gated = Multiply("gated")(MergeHeads("merge")(y), Activate("gate", "silu")(z))
        out = Linear("out_proj", x.shape[-1])(self.norm(gated, name="norm"))
        return out, (*last, *state) if keep else None
