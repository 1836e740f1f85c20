"""Ops that arrange tensors: heads, splits, joins, the KV cache.

None of them computes; views cost nothing, copies move elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import View, movement


@dataclass(frozen=True, slots=True, eq=False)
class SplitHeads(View):
    """[..., heads * d, ...] to [..., heads, d, ...] at an axis counted from the end (-1) or start (0)."""

    drawn: ClassVar[str] = "heads"
    name: str
    heads: Number
    axis: int = -1

    def shape(self, x: Shape) -> Shape:
        axis = self.axis % len(x)
        return (*x[:axis], self.heads, x[axis] // self.heads, *x[axis + 1 :])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.unflatten(x, self.axis, (self.heads, -1))


@dataclass(frozen=True, slots=True, eq=False)
class MergeHeads(Op):
    """[..., heads, d] to [..., heads * d]."""

    drawn: ClassVar[str] = "view"
    name: str
    zero_cost_reason: ClassVar[str] = "a view of the layout attention writes"

    def shape(self, x: Shape) -> Shape:
        return (*x[:-2], x[-2] * x[-1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.flatten(-2)


@dataclass(frozen=True, slots=True, eq=False)
class Split(View):
    """Cut one axis into pieces of the given sizes."""

    drawn: ClassVar[str] = "split"
    name: str
    sizes: tuple[Number, ...]
    axis: int = -1

    def shape(self, x: Shape) -> tuple[Shape, ...]:
        axis = self.axis % len(x)
        return tuple((*x[:axis], size, *x[axis + 1 :]) for size in self.sizes)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.split(list(self.sizes), dim=self.axis)


@dataclass(frozen=True, slots=True, eq=False)
class Concat(Op):
    """Join two tensors along the last axis.

    The second is repeated over the heads axis of [B, T, heads, d] where it has one head. `in_cache`: engines
    keep the two side by side in the cache, and so join nothing.
    """

    drawn: ClassVar[str] = "concat"
    name: str
    in_cache: bool = False

    def shape(self, a: Shape, b: Shape) -> Shape:
        return (*a[:-1], a[-1] + b[-1])

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        out, repeated = prod(self.shape(a, b)), prod(a[:-1]) * b[-1]
        gradients = (
            Part("d_0", OpClass.MOVEMENT, 0, prod(a), prod(a), wrt=0),
            # a sum over the heads that b was repeated for
            Part("d_1", OpClass.MOVEMENT, repeated - prod(b), repeated, prod(b), wrt=1),
        )
        return (movement("concat", prod(a) + prod(b), out, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.cat([a, b.expand(*a.shape[:-1], b.shape[-1])], dim=-1)

    def run_served(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.side_by_side(a, b) if self.in_cache else self.run(torch, weights, a, b)


@dataclass(frozen=True, slots=True, eq=False)
class Unsqueeze(View):
    """[B, T, d] to [B, T, 1, d]: add a heads axis of length 1."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (*x[:-1], 1, x[-1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.unsqueeze(-2)


@dataclass(frozen=True, slots=True, eq=False)
class KeepLast(View):
    """[B, T, D] to [B, 1, D]: the newest token alone, enough to predict the next one."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, *x[2:])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, -1:]


@dataclass(frozen=True, slots=True, eq=False)
class KeepFirst(View):
    """[B, T, D] to [B, 1, D]: the first token alone, the input of a pooler."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], 1, *x[2:])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x[:, :1]


@dataclass(frozen=True, slots=True, eq=False)
class Transpose(View):
    """[B, C, n] to [B, n, C]: channels become the last axis."""

    name: str

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[2], x[1])

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Zeros(Op):
    """Zeros in the shape of the ids: segment 0 for every token (BERT)."""

    drawn: ClassVar[str] = "aside"
    name: str
    zero_cost_reason: ClassVar[str] = "a constant of the input's shape"

    def trained(self, grads: list[bool], ids: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], ids: Any) -> Any:
        return torch.zeros_like(ids)


@dataclass(frozen=True, slots=True, eq=False)
class Widen(Op):
    """x [..., D] with `by` zeros behind and so many `before`: [..., before + D + by]."""

    drawn: ClassVar[str] = "view"
    name: str
    by: Number = 0
    before: Number = 0

    def shape(self, x: Shape) -> Shape:
        return (*x[:-1], self.before + x[-1] + self.by)

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        back = Part("d_0", OpClass.MOVEMENT, 0, n, n, wrt=0)
        return (movement("widen", n, prod(self.shape(x)), (back,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.nn.functional.pad(x, (self.before, self.by))
