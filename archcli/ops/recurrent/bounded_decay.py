"""BoundedLogDecay: decays per channel that cannot fall below a bound.

B batch, T new tokens, H heads, d channels of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, Part, Workspace
from archcli.graph.kept import FP32, Call, Kept
from archcli.ops.base import elementwise
from archcli.ops.recurrent.kept_notes import Notes
from archcli.ops.recurrent.rate_cost import gate_bias, rated


@dataclass(frozen=True, slots=True, eq=False)
class BoundedLogDecay(Op):
    """log a = bound sigmoid(exp(A_log) (x + dt_bias)), in float32, for a bound below 0.

    Input x [B, T, H, d], weights dt_bias [H d] and A_log [H]: the safe gate of KDA in
    flash-linear-attention, as Ling 3 has it.
    """

    component: ClassVar[str] = "recurrence"
    name: str
    bound: float

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"dt_bias": (prod(x[2:]),), "A_log": (x[2],)}

    def initial(self, weight: str) -> float | None:
        return None

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, heads, gates = prod(x), x[2], prod(x[2:])
        scaled = rated("rate", n, heads)
        return (gate_bias(n, gates), scaled, elementwise("sigmoid", n, saved=1), elementwise("bound", n))

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        notes, n = Notes(call), prod(x)
        biased = notes.made(n, notes.given(0), notes.weight())
        rate = notes.of_result(notes.weight(), x[2])
        notes.of_result(notes.times(rate, biased, n), n)
        return notes.kept

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the biased gates and of their sigmoid."""
        return Workspace(2 * FP32 * prod(x))

    def widths(self, call: Call, x: Shape) -> tuple[Number, ...]:
        return (FP32,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        biased = x.to(wide) + weights["dt_bias"].to(wide).view(x.shape[2:])
        return self.bound * torch.sigmoid(weights["A_log"].to(wide).exp().unsqueeze(-1) * biased)
