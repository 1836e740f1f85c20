"""Small weights of recurrent layers: block-diagonal maps, step sizes, skips.

B batch, T new tokens, H heads, P head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.graph.kept import FP32
from archcli.ops.base import bias, contraction, elementwise
from archcli.ops.recurrent.decays import gate_bias, rated


@dataclass(frozen=True, slots=True, eq=False)
class BlockDiagonal(Op):
    """y_j = W_j x_j + b_j for each of `blocks` equal pieces x_j of the last axis.

    Input [..., in], output [..., out]; weight [b, out / b, in / b] for b blocks, bias [b, out / b].
    `is_matrix`: files hold the blocks as one matrix, one below the other, and pack it as they do others.
    A `zeroed` one starts as zero.
    """

    follows_run: ClassVar[bool] = True
    name: str
    blocks: Number
    out: Number
    bias: bool = False
    is_matrix: bool = False
    zeroed: bool = False

    def shape(self, x: Shape) -> Shape:
        return (*x[:-1], self.out)

    def weights(self, x: Shape) -> dict[str, Shape]:
        rows = self.out // self.blocks
        matrices = {"weight": (self.blocks, rows, x[-1] // self.blocks)}
        return matrices | ({"bias": (self.blocks, rows)} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        of_block = x[-1] // self.blocks
        out, weight = prod(x[:-1]) * self.out, self.out * of_block
        product = contraction("matmul", 2 * out * of_block, [(prod(x), 0), (weight, "weight")], out)
        return (product, bias(out, self.out)) if self.bias else (product,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        pieces = x.unflatten(-1, (self.blocks, -1)).flatten(0, -3).transpose(0, 1)
        y = (pieces @ weights["weight"].transpose(1, 2)).transpose(0, 1)
        y = y + weights["bias"] if self.bias else y
        return y.reshape(*x.shape[:-1], self.out)

    def initial(self, weight: str) -> float | None:
        return 0.0 if self.zeroed or weight != "weight" else None


@dataclass(frozen=True, slots=True, eq=False)
class StepSize(Op):
    """dt = softplus(x + dt_bias) and log a = -exp(A_log) dt: step sizes, and logarithms of the decays.

    Input x [..., H], outputs dt [..., H] and log a [..., H]. `limit` bounds dt from below and above.
    Mamba-2, arXiv:2405.21060; arXiv:2412.06464 for the decay of a gated delta net.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "step"
    component: ClassVar[str] = "recurrence"
    name: str
    limit: tuple[float | None, float | None] = (None, None)

    def shape(self, x: Shape) -> tuple[Shape, Shape]:
        return x, x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"dt_bias": x[-1:], "A_log": x[-1:]}

    def initial(self, weight: str) -> float | None:
        return None

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, heads = prod(x), x[-1]
        decay = rated("log_decay", n, heads)
        return (gate_bias(n, heads), elementwise("softplus", n, saved=1), decay)

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the step in fp32, where dt is narrower, and of the rates."""
        return Workspace(FP32 * ((prod(x) if width < FP32 else 0) + x[-1]))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = torch.promote_types(x.dtype, torch.float32)
        step = torch.nn.functional.softplus(x.to(wide) + weights["dt_bias"].to(wide))
        if self.limit != (None, None):
            step = step.clamp(*self.limit)
        return step.to(x.dtype), -weights["A_log"].to(wide).exp() * step


@dataclass(frozen=True, slots=True, eq=False)
class HeadSkip(Op):
    """y + w_h x for each head h: heads y and x [..., H, P], weight [H]."""

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "+"
    component: ClassVar[str] = "recurrence"
    name: str

    def weights(self, y: Shape, x: Shape) -> dict[str, Shape]:
        return {"weight": y[-2:-1]}

    def initial(self, weight: str) -> float | None:
        return 1.0

    def parts(self, y: Shape, x: Shape) -> tuple[Part, ...]:
        n, heads = prod(y), y[-2]
        to_x = Part("d_1", OpClass.ELEMENTWISE, n, n + heads, n, wrt=1)
        to_weight = Part("d_weight", OpClass.NORMALIZATION, 2 * n, 2 * n, heads, wrt="weight")
        return (Part("skip", OpClass.ELEMENTWISE, 2 * n, 2 * n + heads, n, (to_x, to_weight)),)

    def run(self, torch: Any, weights: dict[str, Any], y: Any, x: Any) -> Any:
        return torch.addcmul(y, weights["weight"].unsqueeze(-1).to(x.dtype), x)
