"""TokenShift and Interpolate: each token beside the one before it, and a mix of both.

B batch, T new tokens, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind, Workspace
from archcli.graph.kept import Call, In, Kept
from archcli.ops.base import movement


@dataclass(frozen=True, slots=True, eq=False)
class TokenShift(Op):
    """y_t = x_(t-1); what came before the first token is zero.

    Inputs x [B, T, D], then the cached last token [B, D] if there is one. Outputs y [B, T, D], and with
    `keep` the last token of x.
    """

    keeps_nothing: ClassVar[bool] = True
    component: ClassVar[str] = "recurrence"
    name: str
    keep: bool

    def shape(self, x: Shape, *last: Shape) -> Any:
        return (x, (x[0], x[2])) if self.keep else (x,)

    def states(self, x: Shape, *last: Shape) -> tuple[State, ...]:
        kept = State(x[0] * x[2], StateKind.FIXED, content=StateContent.CONVOLUTION)
        return (kept,) if self.keep else ()

    def parts(self, x: Shape, *last: Shape) -> tuple[Part, ...]:
        n, kept = prod(x), x[0] * x[2]
        moved = (movement("keep", kept, kept, ()),) if self.keep else ()
        return (movement("shift", n, n), *moved)

    def workspace(self, width: int, x: Shape, *last: Shape) -> Workspace:
        """Bytes of the zeros before the first token."""
        return Workspace(0 if last else width * x[0] * x[2])

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *last: Any) -> Any:
        before = last[0].to(x.dtype).unsqueeze(1) if last else torch.zeros_like(x[:, :1])
        y = torch.cat([before, x[:, :-1]], 1)
        return (y, x[:, -1].clone()) if self.keep else (y,)


@dataclass(frozen=True, slots=True, eq=False)
class Interpolate(Op):
    """y = b + w (a - b) for each channel: a and b [B, T, D], weight [D]."""

    name: str

    def shape(self, a: Shape, b: Shape) -> Shape:
        return a

    def weights(self, a: Shape, b: Shape) -> dict[str, Shape]:
        return {"weight": a[-1:]}

    def initial(self, weight: str) -> float | None:
        return 0.5

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, width = prod(a), a[-1]
        backward = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + width, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n, n + width, n, wrt=1),
            Part("d_weight", OpClass.NORMALIZATION, 3 * n, 3 * n, width, wrt="weight"),
        )
        return (Part("interpolate", OpClass.ELEMENTWISE, 3 * n, 2 * n + width, n, backward),)

    def kept(self, call: Call, a: Shape, b: Shape) -> tuple[Kept, ...]:
        """What the weight's gradient is made of: the difference of both."""
        return (In(0), In(1)) if call.trained else ()

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.lerp(b, a, weights["weight"])
