"""Decays of recurrent layers: by token, bounded, or constant by head.

B batch, T new tokens, H heads, d channels of a head, P head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, maximum, prod
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import FP32
from archcli.ops.base import elementwise, heads_of, summed


def gate_bias(n: Number, gates: Number) -> Part:
    """The cost of adding dt_bias, a number for each of a token's `gates`, to n gates."""
    return Part("bias", OpClass.ELEMENTWISE, n, n + gates, n, (summed("dt_bias", n, gates),))


def rated(name: str, n: Number, heads: Number) -> Part:
    """The cost of n gates times e^A_log of their head; its gradient is a sum over all gates of a head."""
    to_gate = Part("d_0", OpClass.ELEMENTWISE, n, n + heads, n, wrt=0)
    to_rate = Part("d_A_log", OpClass.NORMALIZATION, 2 * n + heads, 2 * n, heads, wrt="A_log")
    return Part(name, OpClass.ELEMENTWISE, n + heads, n + heads, n, (to_gate, to_rate))


L2_FORWARD, L2_BACKWARD = 3, 5
"""Square, sum, divide; g . y (two), times y, subtract, divide."""

L2_PER_VECTOR = 2  # add eps, square root


@dataclass(frozen=True, slots=True, eq=False)
class LogDecay(Op):
    """log a = -exp(A_log) softplus(x + dt_bias), in float32.

    Input x [B, T, H] for a decay per head (gated delta net, arXiv:2412.06464 section 3.3), or [B, T, H, d]
    for one per channel (KDA, arXiv:2510.26692 section 4). Weights dt_bias of each gate; A_log [H], and with
    channels [1, 1, H, 1], as checkpoints have it.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "decay"
    component: ClassVar[str] = "recurrence"
    name: str

    def weights(self, x: Shape) -> dict[str, Shape]:
        per_channel = x[3:] != ()
        rate = (1, 1, x[2], 1) if per_channel else (x[2],)
        return {"dt_bias": (prod(x[2:]),), "A_log": rate}

    def initial(self, weight: str) -> float | None:
        return None

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, heads, gates = prod(x), x[2], prod(x[2:])
        decay = rated("log_decay", n, heads)
        return (gate_bias(n, gates), elementwise("softplus", n, saved=1), decay)

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the biased gates, of their softplus, and of the rates."""
        return Workspace(FP32 * (2 * prod(x) + x[2]))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        biased = x.to(wide) + weights["dt_bias"].to(wide).view(x.shape[2:])
        return -weights["A_log"].to(wide).exp() * torch.nn.functional.softplus(biased)


@dataclass(frozen=True, slots=True, eq=False)
class L2Normalize(Op):
    """y = x / sqrt(sum(x^2) + eps) over the last axis: vectors of length one."""

    sign: ClassVar[str] = "L2 norm"
    component: ClassVar[str] = "recurrence"
    name: str
    eps: float = 1e-6

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, vectors = prod(x), prod(x[:-1])
        back = Part("d_0", OpClass.NORMALIZATION, L2_BACKWARD * n, 2 * n + vectors, n, wrt=0)
        flops = L2_FORWARD * n + L2_PER_VECTOR * vectors
        return (Part("normalize", OpClass.NORMALIZATION, flops, n, n, (back,)),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(norm="l2norm")

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of x and y in fp32, where they are narrower; else of the lengths."""
        n, vectors = prod(x), FP32 * prod(x[:-1])
        return Workspace(2 * FP32 * n + maximum(vectors, width * n) - width * n if width < FP32 else vectors)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + self.eps)).to(x.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedLogDecay(Op):
    """log a = bound sigmoid(exp(A_log) (x + dt_bias)), in float32, for a bound below 0.

    Input x [B, T, H, d], weights dt_bias [H d] and A_log [H]: the safe gate of KDA in
    flash-linear-attention, as Ling 3 has it.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "decay"
    component: ClassVar[str] = "recurrence"
    name: str
    bound: float

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"dt_bias": (prod(x[2:]),), "A_log": (x[2],)}

    def initial(self, weight: str) -> float | None:
        return None

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, heads, gates = prod(x), x[2], prod(x[2:])
        scaled = rated("rate", n, heads)
        return (gate_bias(n, gates), scaled, elementwise("sigmoid", n, saved=1), elementwise("bound", n))

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the biased gates and of their sigmoid."""
        return Workspace(2 * FP32 * prod(x))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        biased = x.to(wide) + weights["dt_bias"].to(wide).view(x.shape[2:])
        return self.bound * torch.sigmoid(weights["A_log"].to(wide).exp().unsqueeze(-1) * biased)


@dataclass(frozen=True, slots=True, eq=False)
class HeadDecay(Op):
    """log a_h for every token: heads v [B, T, H, P] to [B, T, H].

    `slopes`: log a_h = -s_h f with the slopes s_h = 2^(-8 h / H) of ALiBi, h from 1, and a factor f of layer
    l of L, 1 - l / (L - 1 + 1e-5) + 1e-5 (arXiv:2401.04658; MiniMax-01, arXiv:2501.08313).
    `retention`: a_h = 1 - 2^(-5 - h), h from 0 (RetNet, arXiv:2307.08621 section 2.2).
    """

    is_constant: ClassVar[bool] = True
    drawn: ClassVar[str] = "aside"
    component: ClassVar[str] = "recurrence"
    zero_cost_reason: ClassVar[str] = "constants of the model"
    name: str
    kind: Literal["slopes", "retention"]
    layer: Number = 0
    n_layers: Number = 1
    peers: Any = field(default=None, repr=False)

    def shape(self, v: Shape) -> Shape:
        return v[:3]

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        """No: what it gives does not depend on the values of its input."""
        return False

    def among(self, peers: Any) -> HeadDecay:
        """The op on this rank's heads, of the heads of all ranks."""
        return replace(self, peers=peers)

    def run(self, torch: Any, weights: dict[str, Any], v: Any) -> Any:
        wide = torch.promote_types(v.dtype, torch.float32)
        first, number = heads_of(v.shape[2], self.peers)
        heads = torch.arange(first, first + v.shape[2], dtype=wide, device=v.device)
        # log1p: 1 - 2^(-5 - h) is close to 1, where a logarithm of the rounded number would be off
        if self.kind == "retention":
            decay = torch.log1p(-torch.exp2(-5 - heads))
        else:
            # the 1e-5 are MiniMax's, whose model has no layer with a factor of 0
            factor = 1 - self.layer / (self.n_layers - 1 + 1e-5) + 1e-5
            decay = -factor * torch.exp2(-8 / number * (heads + 1))
        return decay.expand(v.shape[:3])
