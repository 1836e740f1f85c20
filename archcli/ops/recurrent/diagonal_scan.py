"""DiagonalScan and GatedDecay: the recurrence of the RG-LRU, channel by channel.

B batch, T new tokens, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Workspace
from archcli.graph.kept import FP32
from archcli.ops.recurrent.chunks import CHUNK, Form, linear_scan, steps

SMALLEST = 1e-12
"""Bound of 1 - a^2 from below: the square root has no gradient at 0."""


@dataclass(frozen=True, slots=True, eq=False)
class DiagonalScan(Op):
    """h_t = a_t h_(t-1) + b_t, element by element.

    Inputs a and b [B, T, W], then the cached h [B, W] if there is one. Outputs h [B, T, W], and with `keep`
    the last one [B, W].
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "gated recurrence"
    component: ClassVar[str] = "recurrence"
    name: str
    form: Form
    keep: bool

    def shape(self, a: Shape, b: Shape, *state: Shape) -> Any:
        return (b, (b[0], b[2])) if self.keep else (b,)

    def states(self, a: Shape, b: Shape, *state: Shape) -> tuple[State, ...]:
        return (State(b[0] * b[2], StateKind.FIXED),) if self.keep else ()

    def parts(self, a: Shape, b: Shape, *state: Shape) -> tuple[Part, ...]:
        n = prod(b)
        kept = b[0] * b[2]
        to_inputs = Part("d_1", OpClass.ELEMENTWISE, 2 * n, 2 * n, n, wrt=(0, 1))
        to_decays = Part("d_0", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=0)
        read, written = 2 * n + kept * len(state), n + (kept if self.keep else 0)
        backward = (to_inputs, to_decays)
        return (Part("scan", OpClass.ELEMENTWISE, 2 * n, read, written, backward, scans=True),)

    def workspace(self, width: int, a: Shape, b: Shape, *state: Shape) -> Workspace:
        """Bytes of states, and of b and y in fp32 where they are narrower; decays are in fp32 already."""
        wide = max(width, 4)
        whole = wide * prod(b)
        copies = whole * (2 if wide > width else 0)
        empty = 0 if state else wide * b[0] * b[2]
        return Workspace(copies + whole + empty, 4 * whole)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any, *state: Any) -> Any:
        wide = torch.promote_types(b.dtype, torch.float32)
        h = state[0].to(wide) if state else b.new_zeros((b.shape[0], b.shape[2]), dtype=wide)
        chunk = 1 if steps(self.form, b.shape[1], started=bool(state)) else CHUNK
        out = []
        for decay, added in zip(a.to(wide).split(chunk, 1), b.to(wide).split(chunk, 1), strict=True):
            states, h = linear_scan(torch, decay, added, h)
            out.append(states)
        y = torch.cat(out, 1).to(b.dtype)
        return (y, h) if self.keep else (y,)


@dataclass(frozen=True, slots=True, eq=False)
class GatedDecay(Op):
    """a = exp(-8 softplus(Lambda) r) and b = sqrt(1 - a^2) x: decays and inputs of the RG-LRU.

    Inputs gates r and x [B, T, W], positions [T]; outputs a and b [B, T, W], a in fp32 at least. Weight
    Lambda [W]. The first token has b = x: nothing came before. Griffin, arXiv:2402.19427 section 2.4.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "decay"
    component: ClassVar[str] = "recurrence"
    scale: ClassVar[float] = 8.0
    name: str

    def shape(self, r: Shape, x: Shape, positions: Shape) -> tuple[Shape, Shape]:
        return r, x

    def weights(self, r: Shape, x: Shape, positions: Shape) -> dict[str, Shape]:
        return {"Lambda": r[2:]}

    def initial(self, weight: str) -> float | None:
        return None

    def parts(self, r: Shape, x: Shape, positions: Shape) -> tuple[Part, ...]:
        n, width = prod(r), r[2]
        to_rate = Part("d_Lambda", OpClass.NORMALIZATION, 2 * n + width, 2 * n, width, wrt="Lambda")
        to_gate = Part("d_0", OpClass.ELEMENTWISE, n, n + width, n, wrt=0)
        # softplus and 8 for each channel; the product and exp
        decay = Part("decay", OpClass.ELEMENTWISE, 2 * n + 2 * width, n + width, n, (to_gate, to_rate))
        return (decay, _normalized(n))

    def run(self, torch: Any, weights: dict[str, Any], r: Any, x: Any, positions: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        rate = self.scale * torch.nn.functional.softplus(weights["Lambda"].to(wide))
        log_decay = -rate * r.to(wide)
        share = (-torch.expm1(2 * log_decay)).clamp(min=SMALLEST).sqrt()
        share = torch.where((positions == 0).unsqueeze(-1), torch.ones_like(share), share)
        return log_decay.exp(), share.to(x.dtype) * x

    def workspace(self, width: int, r: Shape, x: Shape, positions: Shape) -> Workspace:
        """Bytes of fp32 tensors from the log of the decay to sqrt(1 - a^2): at most four at once."""
        n, whole = prod(r), FP32 * prod(r)
        running = 4 * whole + FP32 * r[2] + positions[0] - (FP32 + width) * n
        return Workspace(running, 3 * whole)


def _normalized(n: Number) -> Part:
    """sqrt(1 - a^2) x: twice the logarithm, exp less 1, the root, the product.

    Backward: to x the product with the root; to log a that with x, times a^2 over the root (2), and the sum
    with the gradient of a, times a (2).
    """
    to_x = Part("d_1", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=1)
    to_gate = Part("d_0", OpClass.ELEMENTWISE, 5 * n, 4 * n, n, wrt=0)
    return Part("normalize", OpClass.ELEMENTWISE, 4 * n, 2 * n, n, (to_x, to_gate))
