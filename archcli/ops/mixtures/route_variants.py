"""Ops of other mixtures: attention heads, shared experts beside the others, zero experts.

N tokens B*T, k experts per token, H heads of an expert, as many as kv heads, E experts that compute, Z zero
experts that do not, S shared experts, n copies of tokens for experts that compute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, part_of, prod, rounded
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import Call
from archcli.ops.base import as_number, has_no_values
from archcli.ops.mixtures.route import Dispatch, Route


@dataclass(frozen=True, slots=True, eq=False)
class CollectHeads(Op):
    """Queries [N k, H d] in the order of experts to heads [B, T, H k, d].

    The k heads that read one kv head are adjacent.

    Inputs: queries, index [B, T, k] of experts, order [N k] of `Dispatch`.
    """

    drawn: ClassVar[str] = "gather"
    name: str
    heads: Number

    def shape(self, q: Shape, index: Shape, order: Shape) -> Shape:
        return (*index[:-1], self.heads * index[-1], q[-1] // self.heads)

    def parts(self, q: Shape, index: Shape, order: Shape) -> tuple[Part, ...]:
        return (_moved(prod(q), prod(order)),)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, index: Any, order: Any) -> Any:
        copies = torch.unflatten(q.index_select(0, order.argsort()), 0, tuple(index.shape))
        return torch.unflatten(copies, -1, (self.heads, -1)).transpose(-2, -3).flatten(-3, -2)


@dataclass(frozen=True, slots=True, eq=False)
class SpreadHeads(Op):
    """Heads [B, T, H k, d] back to their experts, [N k, H d] in the order of experts.

    Inputs: heads, index [B, T, k] of experts, order [N k] of `Dispatch`.
    """

    drawn: ClassVar[str] = "spread"
    name: str

    def shape(self, x: Shape, index: Shape, order: Shape) -> Shape:
        return (order[0], x[-2] // index[-1] * x[-1])

    def parts(self, x: Shape, index: Shape, order: Shape) -> tuple[Part, ...]:
        return (_moved(prod(x), prod(order)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any, order: Any) -> Any:
        copies = torch.unflatten(x, -2, (-1, index.shape[-1])).transpose(-2, -3).flatten(-2)
        return copies.flatten(0, -2).index_select(0, order)


def _moved(numbers: Number, places: Number) -> Part:
    """The cost of moving numbers to other places; the gradient moves back."""
    back = Part("d_0", OpClass.ROUTING, 0, numbers + places, numbers, wrt=0)
    return Part("gather", OpClass.ROUTING, 0, numbers + places, numbers, (back,))


@dataclass(frozen=True, slots=True, eq=False)
class RouteByToken(Route):
    """Weights of the k experts that a stored table states for each id: logits [B, T, E], ids [B, T].

    Hash layers, arXiv:2106.04426; DeepSeek-V4. The table [V, k] of `entries` V holds indices and is not
    trained. Scores and weights are those of `Route`.
    """

    whole_buffers: ClassVar[frozenset[str]] = frozenset({"experts_of"})
    entries: Number = 0

    def shape(self, logits: Shape, ids: Shape | None = None) -> tuple[Shape, Shape]:
        return ((*logits[:-1], self.top_k),) * 2

    def buffers(self, logits: Shape, ids: Shape | None = None) -> dict[str, Shape]:
        return {"experts_of": (self.entries, self.top_k)}

    def parts(self, logits: Shape, ids: Shape | None = None) -> tuple[Part, ...]:
        (part,) = Route.parts(self, logits)
        places = prod(logits[:-1]) * (self.top_k + 1)
        return (replace(part, read=part.read + places),)

    def traits(self, *xs: Shape) -> Traits:
        return Route.traits(self, *xs)._replace(marks=("by a table of tokens",))

    def space(self, call: Call, logits: Shape, ids: Shape | None = None) -> Workspace:
        return Route.space(self, call, logits)

    def run(self, torch: Any, weights: dict[str, Any], logits: Any, ids: Any = None) -> Any:
        index = torch.nn.functional.embedding(ids, weights["experts_of"])
        return self._weighed(self._scored(torch, logits.float()), index, logits.dtype), index


@dataclass(frozen=True, slots=True, eq=False)
class RouteBesideShared(Op):
    """Logits [B, T, E + S] to weights and indices of the chosen [B, T, k] and shared [B, T, S].

    Scores are sigmoids. The choice is the k largest of the first E scores plus a stored, untrained correction
    bias [E]. Weights are the scores of the chosen and of all S shared experts, divided by their sum, times
    `scale`, times a trained number (Inkling).
    """

    drawn: ClassVar[str] = "router"
    sign: ClassVar[str] = "router"
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

    def traits(self, *xs: Shape) -> Traits:
        return Traits(router_scores="sigmoid")

    def run(self, torch: Any, weights: dict[str, Any], logits: Any) -> Any:
        scores = logits.float().sigmoid()
        routed, shared = scores.split([logits.shape[-1] - self.shared, self.shared], dim=-1)
        index = (routed.detach() + weights["correction_bias"]).topk(self.top_k, dim=-1).indices
        every = torch.arange(self.shared, device=logits.device).expand(*logits.shape[:-1], -1)
        joined = torch.cat([routed.gather(-1, index), shared], dim=-1)
        shares = joined / (joined.sum(-1, keepdim=True) + 1e-20) * self.scale * weights["scale"].float()
        parts = shares.split([self.top_k, self.shared], dim=-1)
        chosen, always = (part.to(logits.dtype).contiguous() for part in parts)
        return chosen, index, always, every


@dataclass(frozen=True, slots=True, eq=False)
class DispatchReal(Dispatch):
    """Copy each token to those of its k experts that compute, sorted by expert.

    MoE++, arXiv:2410.07348; LongCat-Flash, arXiv:2509.01322 section 2.1. Inputs x [B, T, D] and index [B, T,
    k] below E + Z, of which those from E on compute nothing. Outputs: tokens [n, D], the expert of each [n],
    and which of the N k choices it is [n].

    How many copies there are is data. Counted are N k E / (E + Z), as if all experts were chosen alike, an
    exact fraction. On the meta device as many, rounded, stand for them; a compiled graph, whose shapes are
    fixed, has all N k, and gives no weight to those that are too many.
    """

    follows_run: ClassVar[bool] = False
    expected: ClassVar[str] = (
        "How many experts compute for a token depends on the router: figures are expected values by equal "
        "shares of all experts, exact fractions, each rounded to a whole number once, at the end."
    )
    n_experts: Number
    zero_experts: Number

    def traits(self, *xs: Shape) -> Traits:
        return Traits(marks=(f"{self.zero_experts} zero experts",))

    def copies(self, choices: Number) -> Number:
        """The expected number of choices of experts that compute."""
        return part_of(choices, self.n_experts, self.n_experts + self.zero_experts)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        expert_of, order = index.flatten().sort(stable=True)
        if has_no_values(index):
            copies = rounded(self.copies(as_number(order.numel())))
        elif torch.compiler.is_compiling():
            copies, expert_of = order.numel(), expert_of.clamp(max=self.n_experts - 1)
        else:
            copies = int((expert_of < self.n_experts).sum())
        order, expert_of = order[:copies].clone(), expert_of[:copies].clone()  # not views of all N k
        return x.flatten(0, -2).index_select(0, order // index.shape[-1]), expert_of, order


@dataclass(frozen=True, slots=True, eq=False)
class CombineReal(Op):
    """Per token the sum of weight * output over the experts that compute, of weight * x over others.

    Outputs y [n, D], tokens x [B, T, D], weights and index [B, T, k], order [n] of `DispatchReal`; output [B,
    T, D].
    """

    drawn: ClassVar[str] = "gather"
    name: str
    n_experts: Number

    def shape(self, y: Shape, x: Shape, weights: Shape, index: Shape, order: Shape) -> Shape:
        return x

    def parts(self, y: Shape, x: Shape, weights: Shape, index: Shape, order: Shape) -> tuple[Part, ...]:
        copies, tokens, choices = prod(y), prod(x), prod(weights)
        read = copies + tokens + 2 * choices + prod(order)
        gradients = (
            Part("d_0", OpClass.ROUTING, copies, tokens + choices, copies, wrt=0),
            Part("d_1", OpClass.ROUTING, tokens, tokens + choices, tokens, wrt=1),
            Part("d_2", OpClass.ROUTING, 2 * (copies + tokens), copies + 2 * tokens, choices, wrt=2),
        )
        # a product and a sum for each copy, one product for each token, and the sum of its weights
        flops = 2 * copies + tokens + choices
        return (Part("combine", OpClass.ROUTING, flops, read, tokens, gradients),)

    def run(
        self, torch: Any, weights: dict[str, Any], y: Any, x: Any, gates: Any, index: Any, order: Any
    ) -> Any:
        computes = index < self.n_experts
        real, idle = gates * computes, (gates * ~computes).sum(-1, keepdim=True)
        of_copy = real.flatten().index_select(0, order).unsqueeze(-1)
        out = (x * idle).flatten(0, -2)
        return out.index_add(0, order // index.shape[-1], y * of_copy).view(x.shape)
