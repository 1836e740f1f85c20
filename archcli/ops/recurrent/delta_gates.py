"""LogDecay and L2Normalize: gates, queries and keys of a gated delta net before the scan.

B batch, T new tokens, H heads, d channels of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, maximum, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import FP32, Call, Kept
from archcli.ops.base import elementwise
from archcli.ops.recurrent.kept_notes import Notes
from archcli.ops.recurrent.rate_cost import gate_bias, rated

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

    component: ClassVar[str] = "recurrence"
    name: str

    def shape(self, x: Shape) -> Shape:
        return x

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

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        notes, n, heads = Notes(call), prod(x), x[2]
        biased = notes.made(n, notes.given(0), notes.weight())
        rate = notes.of_result(notes.weight(), heads)
        notes.times(notes.made(heads, rate), notes.of_input(biased, n), n)
        return notes.kept

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the biased gates, of their softplus, and of the rates."""
        return Workspace(FP32 * (2 * prod(x) + x[2]))

    def widths(self, call: Call, x: Shape) -> tuple[Number, ...]:
        return (FP32,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        biased = x.to(wide) + weights["dt_bias"].to(wide).view(x.shape[2:])
        return -weights["A_log"].to(wide).exp() * torch.nn.functional.softplus(biased)


@dataclass(frozen=True, slots=True, eq=False)
class L2Normalize(Op):
    """y = x / sqrt(sum(x^2) + eps) over the last axis: vectors of length one."""

    component: ClassVar[str] = "recurrence"
    name: str
    eps: float = 1e-6

    def shape(self, x: Shape) -> Shape:
        return x

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, vectors = prod(x), prod(x[:-1])
        back = Part("d_0", OpClass.NORMALIZATION, L2_BACKWARD * n, 2 * n + vectors, n, wrt=0)
        flops = L2_FORWARD * n + L2_PER_VECTOR * vectors
        return (Part("normalize", OpClass.NORMALIZATION, flops, n, n, (back,)),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        notes, n, vectors = Notes(call), prod(x), prod(x[:-1])
        wide = notes.cast(notes.given(0), n)
        length = notes.made(vectors, notes.of_input(wide, n))
        notes.times(wide, notes.of_result(length, vectors), n)
        return notes.kept

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of x and y in fp32, where they are narrower; else of the lengths."""
        n, vectors = prod(x), FP32 * prod(x[:-1])
        return Workspace(2 * FP32 * n + maximum(vectors, width * n) - width * n if width < FP32 else vectors)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + self.eps)).to(x.dtype)
