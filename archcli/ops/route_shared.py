"""RouteBesideShared: experts that see every token share the weights with those that are chosen.

E experts to choose from, k of them per token, S shared ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import FP32, INT64, Call, Kept, New, Out


@dataclass(frozen=True, slots=True, eq=False)
class RouteBesideShared(Op):
    """Logits [B, T, E + S] to weights and indices of the chosen [B, T, k] and shared [B, T, S].

    Scores are sigmoids. The choice is the k largest of the first E scores plus a stored, untrained correction
    bias [E]. Weights are the scores of the chosen and of all S shared experts, divided by their sum, times
    `scale`, times a trained number (Inkling).
    """

    name: str
    top_k: Number
    shared: Number
    scale: float = 1.0

    def shape(self, logits: Shape) -> tuple[Shape, Shape, Shape, Shape]:
        chosen, every = (*logits[:-1], self.top_k), (*logits[:-1], self.shared)
        return chosen, chosen, every, every

    def buffers(self, logits: Shape) -> dict[str, Shape]:
        return {"correction_bias": (logits[-1] - self.shared,)}

    def weights(self, logits: Shape) -> dict[str, Shape]:
        return {"scale": (1,)}

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "scale" else None

    def parts(self, logits: Shape) -> tuple[Part, ...]:
        tokens, every = prod(logits[:-1]), prod(logits)
        weighed, routed = tokens * (self.top_k + self.shared), every - tokens * self.shared
        weighing = (3 if self.scale == 1.0 else 4) * weighed  # the sum, the division, the factors
        gradients = (
            Part("d_0", OpClass.ROUTING, every + weighing, every + weighed, every, wrt=0),
            Part("d_scale", OpClass.ROUTING, 2 * weighed, 2 * weighed, 1, wrt="scale"),
        )
        flops = every + routed + weighing
        return (Part("route", OpClass.ROUTING, flops, every + 1, 2 * weighed, gradients),)

    def kept(self, call: Call, logits: Shape) -> tuple[Kept, ...]:
        tokens = prod(logits[:-1])
        shares = New(tokens * (self.top_k + self.shared), FP32)
        kept: list[Kept] = [shares] if call.trained else []
        if call.grads[0]:
            kept += [New(prod(logits), FP32), Out(1), shares, New(tokens, FP32)]
            kept += [] if call.width == FP32 else [New(1, FP32)]  # the trained number in fp32
        return tuple(kept)

    def widths(self, call: Call, logits: Shape) -> tuple[Number, ...]:
        return (call.widths[0], INT64) * 2

    def run(self, torch: Any, weights: dict[str, Any], logits: Any) -> Any:
        scores = logits.float().sigmoid()
        routed, shared = scores.split([logits.shape[-1] - self.shared, self.shared], dim=-1)
        index = (routed.detach() + weights["correction_bias"]).topk(self.top_k, dim=-1).indices
        every = torch.arange(self.shared, device=logits.device).expand(*logits.shape[:-1], -1)
        joined = torch.cat([routed.gather(-1, index), shared], dim=-1)
        shares = joined / (joined.sum(-1, keepdim=True) + 1e-20) * self.scale * weights["scale"].float()
        parts = shares.split([self.top_k, self.shared], dim=-1)
        chosen, beside = (part.to(logits.dtype).contiguous() for part in parts)
        return chosen, index, beside, every
