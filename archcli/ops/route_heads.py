"""Ops of a mixture of attention heads: queries of chosen experts as heads, and heads back to them.

N tokens B*T, k experts per token, H heads of an expert, each of which has keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import INT64, Call, In, Kept, New


@dataclass(frozen=True, slots=True, eq=False)
class CollectHeads(Op):
    """Queries [N k, H d] in the order of experts to heads [B, T, H k, d].

    The k heads that read one kv head are adjacent.

    Inputs: queries, index [B, T, k] of experts, order [N k] of `Dispatch`.
    """

    name: str
    heads: Number

    def shape(self, q: Shape, index: Shape, order: Shape) -> Shape:
        return (*index[:-1], self.heads * index[-1], q[-1] // self.heads)

    def parts(self, q: Shape, index: Shape, order: Shape) -> tuple[Part, ...]:
        return (_moved(prod(q), prod(order)),)

    def kept(self, call: Call, q: Shape, index: Shape, order: Shape) -> tuple[Kept, ...]:
        return (New(prod(order), INT64),) if call.grads[0] else ()

    def run(self, torch: Any, weights: dict[str, Any], q: Any, index: Any, order: Any) -> Any:
        copies = torch.unflatten(q.index_select(0, order.argsort()), 0, tuple(index.shape))
        return torch.unflatten(copies, -1, (self.heads, -1)).transpose(-2, -3).flatten(-3, -2)


@dataclass(frozen=True, slots=True, eq=False)
class SpreadHeads(Op):
    """Heads [B, T, H k, d] back to their experts, [N k, H d] in the order of experts.

    Inputs: heads, index [B, T, k] of experts, order [N k] of `Dispatch`.
    """

    name: str

    def shape(self, x: Shape, index: Shape, order: Shape) -> Shape:
        return (order[0], x[-2] // index[-1] * x[-1])

    def parts(self, x: Shape, index: Shape, order: Shape) -> tuple[Part, ...]:
        return (_moved(prod(x), prod(order)),)

    def kept(self, call: Call, x: Shape, index: Shape, order: Shape) -> tuple[Kept, ...]:
        return (In(2),) if call.grads[0] else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any, order: Any) -> Any:
        copies = torch.unflatten(x, -2, (-1, index.shape[-1])).transpose(-2, -3).flatten(-2)
        return copies.flatten(0, -2).index_select(0, order)


def _moved(numbers: Number, places: Number) -> Part:
    """The cost of moving so many numbers to other places; the gradient moves back."""
    back = Part("d_0", OpClass.ROUTING, 0, numbers + places, numbers, wrt=0)
    return Part("gather", OpClass.ROUTING, 0, numbers + places, numbers, (back,))
