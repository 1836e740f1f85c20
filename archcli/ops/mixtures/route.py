"""Ops of a dropless mixture of experts: Route picks experts, Dispatch sends tokens, Combine adds up.

N tokens B*T, E experts, k experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, is_one, maximum, prod
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import FP32, Call
from archcli.graph.part import NO_WORKSPACE
from archcli.ops.base import SOFTMAX_BACKWARD, SOFTMAX_FORWARD

Scores = Literal["softmax", "sigmoid", "softmax_after", "sparsemixer", "sqrtsoftplus"]
GroupScore = Literal["max", "top2"]
RankedBy = Literal["scores", "logits"]


@dataclass(frozen=True, slots=True, eq=False)
class Route(Op):
    """Choose k of E experts for each token: logits [B, T, E] to weights and expert indices [B, T, k].

    Scores are softmax(logits), sigmoid(logits), sqrt(softplus(logits)) (`sqrtsoftplus`, DeepSeek-V4), or the
    logits themselves with a softmax over the chosen k (`softmax_after`). The choice is made by score, or by
    logit (`ranked_by`), plus a stored, untrained correction bias [E] if there is one (DeepSeek-V3,
    arXiv:2412.19437 section 2.1.2), within the best `kept_groups` of `groups` groups of experts. A group's
    worth is its largest score or the sum of its two largest. Weights are the scores without the correction,
    divided by their sum if `normalized`, times `scale`. A second input [E] is a correction bias that is a
    parameter of the model.

    `sparsemixer` (Phi-3.5-MoE, arXiv:2409.12136, without sampling) chooses the k largest logits z one after
    the other. The weight of a choice m is its share of a softmax over what is not chosen yet and as good:
    (m - z) / max(|z|, m) <= 2 `jitter`.
    """

    drawn: ClassVar[str] = "router"
    sign: ClassVar[str] = "router"
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
    jitter: float = 0.01

    def shape(self, logits: Shape, correction: Shape | None = None) -> tuple[Shape, Shape]:
        return ((*logits[:-1], self.top_k),) * 2

    def buffers(self, logits: Shape, correction: Shape | None = None) -> dict[str, Shape]:
        return {"correction_bias": (logits[-1],)} if self.correction else {}

    def parts(self, logits: Shape, correction: Shape | None = None) -> tuple[Part, ...]:
        every, chosen = prod(logits), prod(logits[:-1]) * self.top_k
        forward, back = self._score_flops(every, chosen)
        weighing = ((2 if self._divides else 0) + (1 if self.scale != 1.0 else 0)) * chosen
        corrected = self.correction or correction is not None
        gradient = Part("d_0", OpClass.ROUTING, back + weighing, every + chosen, every, wrt=0)
        flops = forward + (every if corrected else 0) + weighing
        return (Part("route", OpClass.ROUTING, flops, every, 2 * chosen, (gradient,)),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(router_scores=self.scores, router_groups=None if is_one(self.groups) else self.groups)

    @property
    def _divides(self) -> bool:
        """Whether the chosen scores are divided by their sum."""
        return self.normalized and self.scores in ("softmax", "sigmoid", "sqrtsoftplus")

    def _score_flops(self, every: Number, chosen: Number) -> tuple[Number, Number]:
        """FLOPs of the scores, forward and backward; sparsemixer subtracts, divides and takes k softmaxes."""
        forward, back = SOFTMAX_FORWARD - 1, SOFTMAX_BACKWARD - 1
        return {
            "softmax": (forward * every, back * every),
            "sigmoid": (every, every),
            "sqrtsoftplus": (2 * every, 2 * every),
            "softmax_after": (forward * chosen, back * chosen),
            "sparsemixer": ((forward + 2) * every * self.top_k, back * every * self.top_k),
        }[self.scores]

    def space(self, call: Call, logits: Shape, correction: Shape | None = None) -> Workspace:
        """Logits, scores and weights in fp32; those of sparsemixer and of groups are left out."""
        if call.execution.records or self.scores == "sparsemixer":
            return NO_WORKSPACE
        tokens, after = prod(logits[:-1]), self.scores == "softmax_after"
        corrected = self.correction or correction is not None
        tables = (0 if call.in_fp32 else 1) + (0 if after else 1) + corrected
        chosen, out = FP32 * tokens * self.top_k, call.widths[0] * tokens * self.top_k
        most = 0 if call.in_fp32 else chosen
        if after or self.normalized:
            most = 2 * chosen - out + (0 if after else FP32 * tokens)
        if self.scale != 1.0:
            most = maximum(most, chosen if call.in_fp32 else 2 * chosen)
        return Workspace(tables * FP32 * prod(logits) + most)

    def run(self, torch: Any, weights: dict[str, Any], logits: Any, correction: Any = None) -> Any:
        wide = logits.float()
        if self.scores == "sparsemixer":
            chosen, index = self._one_by_one(torch, wide)
            return (chosen * self.scale).to(logits.dtype), index
        scores = self._scored(torch, wide)
        ranked = scores if self.ranked_by == "scores" else wide
        bias = weights["correction_bias"] if self.correction else correction
        ranked = (ranked if bias is None else ranked + bias).detach()  # a choice has no gradient
        if self.groups > 1:
            ranked = self._within_groups(torch, ranked)
        index = ranked.topk(self.top_k, dim=-1).indices
        return self._weighed(scores, index, logits.dtype), index

    def _scored(self, torch: Any, logits: Any) -> Any:
        """The scores of all experts, in fp32."""
        scored: Any = {
            "softmax": lambda: logits.softmax(-1),
            "sigmoid": logits.sigmoid,
            "softmax_after": lambda: logits,
            "sqrtsoftplus": lambda: torch.nn.functional.softplus(logits).sqrt(),
        }[self.scores]()
        return scored

    def _weighed(self, scores: Any, index: Any, dtype: Any) -> Any:
        """The weights of the chosen experts."""
        chosen = scores.gather(-1, index)
        if self.scores == "softmax_after":
            chosen = chosen.softmax(-1)
        elif self.normalized:
            # 1e-20 as in DeepSeek-V3's class: sigmoids of all chosen experts may be rounded to 0
            chosen = chosen / (chosen.sum(-1, keepdim=True) + 1e-20)
        scaled = chosen if self.scale == 1.0 else chosen * self.scale
        return scaled.to(dtype)

    def _one_by_one(self, torch: Any, logits: Any) -> tuple[Any, Any]:
        """Weights and indices of sparsemixer."""
        left, fixed, chosen, index = logits, logits.detach(), [], []
        for _ in range(self.top_k):
            best, first = left.detach().max(-1, keepdim=True)  # a choice has no gradient
            worse = (best - fixed) / fixed.abs().clamp(min=best) > 2 * self.jitter
            shares = left.masked_fill(worse, float("-inf")).softmax(-1)
            chosen.append(shares.gather(-1, first))
            index.append(first)
            left = left.scatter(-1, first, float("-inf"))
        return torch.cat(chosen, -1), torch.cat(index, -1)

    def _within_groups(self, torch: Any, ranked: Any) -> Any:
        grouped = ranked.unflatten(-1, (self.groups, -1))
        worth = grouped.amax(-1) if self.group_score == "max" else grouped.topk(2, dim=-1).values.sum(-1)
        best = worth.topk(self.kept_groups, dim=-1).indices
        kept = torch.zeros_like(worth).scatter(-1, best, 1.0).bool()
        # not 0: a correction may take the scores of kept experts below it
        return grouped.masked_fill(~kept[..., None], float("-inf")).flatten(-2)


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch(Op):
    """Copy each token to its k experts, sorted by expert. Inputs x [B, T, D], index [B, T, k].

    Outputs: tokens [N k, D], the expert of each [N k], and the order [N k] by which they were sorted.
    """

    drawn: ClassVar[str] = "spread"
    follows_run: ClassVar[bool] = True
    name: str

    def shape(self, x: Shape, index: Shape) -> tuple[Shape, Shape, Shape]:
        copies = self.copies(prod(index))
        return (copies, x[-1]), (copies,), (copies,)

    def copies(self, choices: Number) -> Number:
        """How many copies of tokens this many choices of experts make."""
        return choices

    def parts(self, x: Shape, index: Shape) -> tuple[Part, ...]:
        places = prod(index)
        moved = self.copies(places) * x[-1]
        # a token adds up what its copies send back
        gradient = Part("d_0", OpClass.ROUTING, moved, moved + places, prod(x), wrt=0)
        return (Part("gather", OpClass.ROUTING, 0, moved + places, moved, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        expert_of, order = index.flatten().sort(stable=True)
        return x.flatten(0, -2).index_select(0, order // index.shape[-1]), expert_of, order


@dataclass(frozen=True, slots=True, eq=False)
class Combine(Op):
    """Bring the experts' outputs [N k, D] back: per token the sum of weight * output, or of output.

    Weights [B, T, k], order [N k]; output [B, T, D].
    """

    drawn: ClassVar[str] = "gather"
    follows_run: ClassVar[bool] = True
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


@dataclass(frozen=True, slots=True, eq=False)
class SkipLast(Op):
    """Weights and indices [B, T, k] with weight 0 and index 0 where the index is E (ZAYA1's class)."""

    drawn: ClassVar[str] = "view"
    name: str
    n_experts: Number

    def shape(self, weights: Shape, index: Shape) -> tuple[Shape, Shape]:
        return weights, index

    def parts(self, weights: Shape, index: Shape) -> tuple[Part, ...]:
        n = prod(weights)
        gradient = Part("d_0", OpClass.ROUTING, n, 2 * n, n, wrt=0)
        return (Part("skip", OpClass.ROUTING, n, 2 * n, 2 * n, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], gates: Any, index: Any) -> Any:
        computes = index < self.n_experts
        return gates * computes, index * computes
