"""Ops of a dropless mixture of experts: Route picks experts, Dispatch sends tokens, Combine adds up.

N tokens B*T, E experts, k experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import SOFTMAX_BACKWARD, SOFTMAX_FORWARD

Scores = Literal["softmax", "sigmoid", "softmax_after"]
GroupScore = Literal["max", "top2"]
RankedBy = Literal["scores", "logits"]


@dataclass(frozen=True, slots=True, eq=False)
class Route(Op):
    """Choose k of E experts for each token: logits [B, T, E] to weights and expert indices [B, T, k].

    Scores are softmax(logits), sigmoid(logits), or the logits themselves with a softmax over the chosen k
    (`softmax_after`). The choice is made by score, or by logit (`ranked_by`), plus a stored, untrained
    correction bias [E] if there is one (DeepSeek-V3, arXiv:2412.19437 section 2.1.2), within the best
    `kept_groups` of `groups` groups of experts. A group's worth is its largest score or the sum of its two
    largest. Weights are the scores without the correction, divided by their sum if `normalized`, times
    `scale`.
    """

    name: str
    top_k: Number
    scores: Scores = "softmax"
    normalized: bool = True
    scale: float = 1.0
    correction: bool = False
    groups: int = 1
    kept_groups: int = 1
    group_score: GroupScore = "max"
    ranked_by: RankedBy = "scores"

    def shape(self, logits: Shape) -> tuple[Shape, Shape]:
        return ((*logits[:-1], self.top_k),) * 2

    def buffers(self, logits: Shape) -> dict[str, Shape]:
        return {"correction_bias": (logits[-1],)} if self.correction else {}

    def parts(self, logits: Shape) -> tuple[Part, ...]:
        tokens, every = prod(logits[:-1]), prod(logits)
        chosen = tokens * self.top_k
        scored = chosen if self.scores == "softmax_after" else every
        forward, back = (1, 1) if self.scores == "sigmoid" else (SOFTMAX_FORWARD - 1, SOFTMAX_BACKWARD - 1)
        weighing = (2 if self.normalized and self.scores != "softmax_after" else 0) + (
            1 if self.scale != 1.0 else 0
        )
        flops = forward * scored + (every if self.correction else 0) + weighing * chosen
        gradient = Part(
            "d_0", OpClass.ROUTING, back * scored + weighing * chosen, every + chosen, every, wrt=0
        )
        return (Part("route", OpClass.ROUTING, flops, every, 2 * chosen, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], logits: Any) -> Any:
        wide = logits.float()
        scores = {
            "softmax": lambda: wide.softmax(-1),
            "sigmoid": wide.sigmoid,
            "softmax_after": lambda: wide,
        }[self.scores]()
        ranked = scores if self.ranked_by == "scores" else wide
        ranked = ranked + weights["correction_bias"] if self.correction else ranked
        if self.groups > 1:
            ranked = self._within_groups(torch, ranked)
        index = ranked.topk(self.top_k, dim=-1).indices
        chosen = scores.gather(-1, index)
        if self.scores == "softmax_after":
            chosen = chosen.softmax(-1)
        elif self.normalized:
            chosen = chosen / (chosen.sum(-1, keepdim=True) + 1e-20)
        scaled = chosen if self.scale == 1.0 else chosen * self.scale
        return scaled.to(logits.dtype), index

    def _within_groups(self, torch: Any, ranked: Any) -> Any:
        grouped = ranked.unflatten(-1, (self.groups, -1))
        worth = grouped.amax(-1) if self.group_score == "max" else grouped.topk(2, dim=-1).values.sum(-1)
        best = worth.topk(self.kept_groups, dim=-1).indices
        kept = torch.zeros_like(worth).scatter(-1, best, 1.0).bool()
        return grouped.masked_fill(~kept[..., None], float("-inf")).flatten(-2)


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch(Op):
    """Copy each token to its k experts, sorted by expert. Inputs x [B, T, D], index [B, T, k].

    Outputs: tokens [N k, D], the expert of each [N k], and the order [N k] by which they were sorted.
    """

    name: str

    def shape(self, x: Shape, index: Shape) -> tuple[Shape, Shape, Shape]:
        copies = prod(index)
        return (copies, x[-1]), (copies,), (copies,)

    def parts(self, x: Shape, index: Shape) -> tuple[Part, ...]:
        moved, places = prod(index) * x[-1], prod(index)
        gradient = Part(
            "d_0", OpClass.ROUTING, moved, moved + places, prod(x), wrt=0
        )  # a token adds up what its k copies send back
        return (Part("gather", OpClass.ROUTING, 0, moved + places, moved, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        expert_of, order = index.flatten().sort(stable=True)
        return x.flatten(0, -2).index_select(0, order // index.shape[-1]), expert_of, order


@dataclass(frozen=True, slots=True, eq=False)
class Combine(Op):
    """Bring the experts' outputs [N k, D] back: per token the sum of weight * output, or of output.

    Weights [B, T, k], order [N k]; output [B, T, D].
    """

    name: str
    weighted: bool = True

    def shape(self, y: Shape, weights: Shape, order: Shape) -> Shape:
        return (*weights[:-1], y[-1])

    def parts(self, y: Shape, weights: Shape, order: Shape) -> tuple[Part, ...]:
        n = prod(y)
        out = prod(weights[:-1]) * y[-1]
        if not self.weighted:
            back = Part("d_0", OpClass.ROUTING, 0, out, n, wrt=0)
            return (Part("combine", OpClass.ROUTING, n - out, n + prod(order), out, (back,)),)
        gradients = (
            Part("d_0", OpClass.ROUTING, n, out + prod(weights), n, wrt=0),
            Part("d_1", OpClass.ROUTING, 2 * n, n + out, prod(weights), wrt=1),
        )
        return (
            Part("combine", OpClass.ROUTING, 2 * n - out, n + prod(weights) + prod(order), out, gradients),
        )

    def run(self, torch: Any, weights: dict[str, Any], y: Any, gates: Any, order: Any) -> Any:
        copies = torch.unflatten(y.index_select(0, order.argsort()), 0, tuple(gates.shape))
        return (copies * gates[..., None] if self.weighted else copies).sum(-2)
