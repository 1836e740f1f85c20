"""Operations of routed experts: each row with the weights of its expert."""

from __future__ import annotations

from typing import Any

from archcli.graph import Op
from archcli.kernels.dtypes import NAMED
from archcli.kernels.launching import StatedWork, launch, needs_grad
from archcli.kernels.tensor import ShapeTensor
from archcli.kernels.torch_like import TORCH

ALIGNED = 16
"""Bytes whose multiples torch's grouped product wants rows to begin at."""


class TokenAssignment:
    """The expert of each token, in order; where each expert's tokens end is found once for all matrices."""

    def __init__(self, expert_of: ShapeTensor, n_experts: int) -> None:
        self.expert_of, self.n_experts = expert_of, n_experts
        self._ends: ShapeTensor | None = None

    def ends(self) -> ShapeTensor:
        """Ends of the experts' tokens [E]."""
        if self._ends is None:
            sizes = launch("bincount", [self.expert_of], (self.n_experts,), NAMED["int64"])
            self._ends = launch("cumsum", [sizes], (self.n_experts,), NAMED["int32"])
        return self._ends


def run_stacked(op: Op, weights: dict[str, Any], values: list[Any], routed: TokenAssignment) -> Any:
    """Run an op of routed experts, whose weights are stacked [E, …]."""
    if not op.grouped:
        chosen = {name: weight[routed.expert_of] for name, weight in weights.items()}
        return op.run(TORCH, chosen, *values)
    (x,) = values
    y = _grouped_product(x, weights["weight"], routed)
    return y + weights["bias"][routed.expert_of] if "bias" in weights else y


def _grouped_product(x: Any, weight: Any, routed: TokenAssignment) -> Any:
    """[N k, in] times each expert's matrix: [N k, out]; backward two more grouped products."""
    ends = routed.ends()
    flops = 2 * x.numel() * weight.shape[1]

    def backward(g: Any) -> tuple[Any, ...]:
        return (
            launch("_grouped_mm", [g, weight, ends], x.shape, x.dtype, work=StatedWork(flops))
            if needs_grad(x)
            else None,
            launch("_grouped_mm", [g, x, ends], weight.shape, x.dtype, work=StatedWork(flops))
            if needs_grad(weight)
            else None,
        )

    shape = (x.shape[0], weight.shape[1])
    return launch("_grouped_mm", [x, weight, ends], shape, x.dtype, backward=backward, work=StatedWork(flops))
