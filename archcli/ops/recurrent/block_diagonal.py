"""BlockDiagonal: a linear map whose matrix has blocks along its diagonal and zeros elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, Part, Workspace
from archcli.graph.kept import Call, In, Kept
from archcli.ops.base import bias, contraction


@dataclass(frozen=True, slots=True, eq=False)
class BlockDiagonal(Op):
    """y_j = W_j x_j + b_j for each of `blocks` equal pieces x_j of the last axis.

    Input [..., in], output [..., out]; weight [b, out / b, in / b] for b blocks, bias [b, out / b].
    """

    name: str
    blocks: Number
    out: Number
    bias: bool = False

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

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        return (In(0),) if call.trained else ()

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the result block by block."""
        return Workspace(width * prod(x[:-1]) * self.out)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        pieces = x.unflatten(-1, (self.blocks, -1)).flatten(0, -3).transpose(0, 1)
        y = (pieces @ weights["weight"].transpose(1, 2)).transpose(0, 1)
        y = y + weights["bias"] if self.bias else y
        return y.reshape(*x.shape[:-1], self.out)
