"""Ops of a mixture some of whose experts compute nothing: DispatchReal and CombineReal.

N tokens B*T, E experts that compute, Z that do not, k experts per token, n copies of tokens for the former.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, part_of, prod, rounded
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import BOOL, INT64, Call, In, Kept, New
from archcli.ops.base import has_no_values


@dataclass(frozen=True, slots=True, eq=False)
class DispatchReal(Op):
    """Copy each token to those of its k experts that compute, sorted by expert.

    MoE++, arXiv:2410.07348; LongCat-Flash, arXiv:2509.01322 section 2.1. Inputs x [B, T, D] and index [B, T,
    k] below E + Z, of which those from E on compute nothing. Outputs: tokens [n, D], the expert of each [n],
    and which of the N k choices it is [n].

    How many copies there are is data. Counted are N k E / (E + Z), as if all experts were chosen alike, an
    exact fraction. On the meta device as many, rounded, stand for them; a compiled graph, whose shapes are
    fixed, has all N k, and gives no weight to those that are too many.
    """

    expected: ClassVar[str] = (
        "How many experts compute for a token depends on the router: figures are expected values by equal "
        "shares of all experts, exact fractions, each rounded to a whole number once, at the end."
    )
    name: str
    n_experts: Number
    zero_experts: Number

    def shape(self, x: Shape, index: Shape) -> tuple[Shape, Shape, Shape]:
        copies = self._copies(prod(index))
        return (copies, x[-1]), (copies,), (copies,)

    def _copies(self, choices: Number) -> Number:
        return part_of(choices, self.n_experts, self.n_experts + self.zero_experts)

    def parts(self, x: Shape, index: Shape) -> tuple[Part, ...]:
        choices = prod(index)
        moved = self._copies(choices) * x[-1]
        gradient = Part("d_0", OpClass.ROUTING, moved, moved + choices, prod(x), wrt=0)
        return (Part("gather", OpClass.ROUTING, 0, moved + choices, moved, (gradient,)),)

    def kept(self, call: Call, x: Shape, index: Shape) -> tuple[Kept, ...]:
        return (New(self._copies(prod(index)), INT64),)

    def widths(self, call: Call, x: Shape, index: Shape) -> tuple[Number, ...]:
        return (call.widths[0], INT64, INT64)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        expert_of, order = index.flatten().sort(stable=True)
        if has_no_values(index):
            copies = rounded(self._copies(int(order.numel())))  # a tensor while torch.jit traces
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

    def kept(
        self, call: Call, y: Shape, x: Shape, weights: Shape, index: Shape, order: Shape
    ) -> tuple[Kept, ...]:
        (of_copy, of_token, of_weight, *_), width = call.grads, call.widths[0]
        added: list[Kept] = [New(prod(order), INT64), New(prod(y), width)]
        kept = added if of_copy or of_weight else []
        if of_weight:
            kept += [In(0), In(1), In(4), New(prod(weights), BOOL), New(prod(weights), BOOL)]
        if of_copy:
            kept.append(New(prod(order), width))
        return (*kept, New(prod(x[:-1]), width)) if of_token else tuple(kept)

    def run(
        self, torch: Any, weights: dict[str, Any], y: Any, x: Any, gates: Any, index: Any, order: Any
    ) -> Any:
        computes = index < self.n_experts
        real, idle = gates * computes, (gates * ~computes).sum(-1, keepdim=True)
        of_copy = real.flatten().index_select(0, order).unsqueeze(-1)
        out = (x * idle).flatten(0, -2)
        return out.index_add(0, order // index.shape[-1], y * of_copy).view(x.shape)
