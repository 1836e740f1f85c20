"""Ops for exchanges of tensors between ranks, each as seen by one of t ranks.

Their cost is data movement of 0 FLOPs: sums over ranks are made on the way, by the library that moves them.
`sent` is what a rank sends over a ring (arXiv:1909.08053 section 3; arXiv:2205.05198 section 4.2).
A run without `peers` is that of one process, which stands for the others: its tensors have a rank's shapes.
With them it is the exchange itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

from archcli.arith import Number, Shape, part_of, prod
from archcli.errors import ArchError
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import movement


class Peers(Protocol):
    """The ranks that a process exchanges tensors with: the run of each op on torch's tensors."""

    rank: int
    number: int

    def all_reduce(self, x: Any) -> Any:
        """The sum over the ranks; its gradient as it comes."""

    def sum_gradient(self, x: Any) -> Any:
        """x itself; backward the sum of the ranks' gradients."""

    def all_gather(self, x: Any, axis: int, *, sums: bool) -> Any:
        """The parts of all ranks; backward the rank's part of the gradient, of the ranks' sum if `sums`."""

    def reduce_scatter(self, x: Any, axis: int) -> Any:
        """The rank's part of the sum; backward the parts of all ranks."""

    def own_part(self, x: Any, axis: int, *, gathers: bool) -> Any:
        """The rank's part; backward among zeros, or with `gathers` among the parts of all ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class Communication(Op):
    """Base of the ops that t `ranks` run together, every `stride`-th of a plan's."""

    name: str
    ranks: Number
    peers: Peers | None = field(default=None, kw_only=True, repr=False)
    stride: int = field(default=1, kw_only=True)

    def among(self, peers: Any) -> Self:
        """The op, with the ranks to exchange with when it is run."""
        return replace(self, peers=peers)


def _share(elements: Number, ranks: Number) -> Number:
    """(t - 1) / t of the elements."""
    return part_of(elements, ranks - 1, ranks)


@dataclass(frozen=True, slots=True, eq=False)
class AllReduce(Communication):
    """The sum of x over all ranks, in its place on each. Its gradient is that of the sum, as it comes."""

    drawn: ClassVar[str] = "view"
    collective: ClassVar[str] = "all_reduce"
    is_view: ClassVar[bool] = True
    passes_gradient: ClassVar[bool] = True

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("all_reduce", prod(x), prod(x), ()),)

    def sent(self, x: Shape) -> Number:
        # over a ring it is a reduce-scatter, then an all-gather
        return 2 * _share(prod(x), self.ranks)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.peers is not None:
            return self.peers.all_reduce(x)
        return x


@dataclass(frozen=True, slots=True, eq=False)
class SumGradient(Communication):
    """y = x, which every rank has; backward the all-reduce of their gradients (Megatron's f)."""

    drawn: ClassVar[str] = "view"
    collective_back: ClassVar[str] = "all_reduce"
    is_view: ClassVar[bool] = True
    passes_gradient: ClassVar[bool] = True

    def parts(self, x: Shape) -> tuple[Part, ...]:
        back = Part("d_0", OpClass.MOVEMENT, 0, prod(x), prod(x), wrt=0)
        return (Part("copy", OpClass.MOVEMENT, 0, 0, 0, (back,)),)

    def sent_back(self, x: Shape) -> Number:
        return 2 * _share(prod(x), self.ranks)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.peers is not None:
            return self.peers.sum_gradient(x)
        return x


@dataclass(frozen=True, slots=True, eq=False)
class AllGather(Communication):
    """The parts of all ranks, joined along one axis.

    Backward a reduce-scatter; without `sums`, where all ranks have the same gradient, the rank's part of it.
    """

    drawn: ClassVar[str] = "view"
    collective: ClassVar[str] = "all_gather"
    collective_back: ClassVar[str] = "reduce_scatter"
    axis: int = -1
    sums: bool = True

    def shape(self, x: Shape) -> Shape:
        return _scaled(x, self.axis, x[self.axis] * self.ranks)

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        read = n * self.ranks if self.sums else n
        back = Part("d_0", OpClass.MOVEMENT, 0, read, n, wrt=0)
        return (movement("all_gather", n, n * self.ranks, (back,)),)

    def sent(self, x: Shape) -> Number:
        return prod(x) * (self.ranks - 1)

    def sent_back(self, x: Shape) -> Number:
        return prod(x) * (self.ranks - 1) if self.sums else 0

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.peers is not None:
            return self.peers.all_gather(x, self.axis, sums=self.sums)
        return torch.cat([x] * self.ranks, dim=self.axis)


@dataclass(frozen=True, slots=True, eq=False)
class ReduceScatter(Communication):
    """The rank's part, along one axis, of the sum over all ranks. Backward an all-gather."""

    drawn: ClassVar[str] = "view"
    collective: ClassVar[str] = "reduce_scatter"
    collective_back: ClassVar[str] = "all_gather"
    axis: int = -1

    def shape(self, x: Shape) -> Shape:
        return _scaled(x, self.axis, x[self.axis] // self.ranks)

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (movement("reduce_scatter", prod(x), prod(self.shape(x))),)

    def sent(self, x: Shape) -> Number:
        return _share(prod(x), self.ranks)

    def sent_back(self, x: Shape) -> Number:
        return _share(prod(x), self.ranks)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.peers is not None:
            return self.peers.reduce_scatter(x, self.axis)
        return _first(x, self.ranks, self.axis).clone()


@dataclass(frozen=True, slots=True, eq=False)
class OwnPart(Communication):
    """The rank's part, along one axis, of a tensor that every rank has: a view.

    Backward fills the rest with zeros, or with `gathers` has the parts of all ranks.
    """

    collective_back: ClassVar[str] = "all_gather"
    is_view: ClassVar[bool] = True
    axis: int = -1
    gathers: bool = False

    def shape(self, x: Shape) -> Shape:
        return _scaled(x, self.axis, x[self.axis] // self.ranks)

    def parts(self, x: Shape) -> tuple[Part, ...]:
        back = Part("d_0", OpClass.MOVEMENT, 0, prod(self.shape(x)), prod(x), wrt=0)
        return (Part("part", OpClass.MOVEMENT, 0, 0, 0, (back,)),)

    def sent_back(self, x: Shape) -> Number:
        return _share(prod(x), self.ranks) if self.gathers else 0

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.peers is not None:
            return self.peers.own_part(x, self.axis, gathers=self.gathers)
        return _first(x, self.ranks, self.axis)


@dataclass(frozen=True, slots=True, eq=False)
class AllToAll(Communication):
    """Tokens [n, D] sent to the ranks of their experts, or their outputs sent back.

    Of n tokens that `shared_by` ranks hold alike, each sends its share. Every rank is taken to receive as
    many as it sends. `visits`: of n tokens so many are copies of one, for its experts. `enters`: products of
    experts read what is sent.
    """

    drawn: ClassVar[str] = "view"
    collective: ClassVar[str] = "all_to_all"
    collective_back: ClassVar[str] = "all_to_all"
    shared_by: Number = 1
    visits: Number = 1
    enters: bool = False
    expected: ClassVar[str] = "Every rank is taken to receive an equal share of the tokens sent to experts."

    def shape(self, x: Shape) -> Shape:
        return (part_of(x[0], 1, self.shared_by), *x[1:])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        moved = prod(self.shape(x))
        return (movement("all_to_all", moved, moved),)

    def sent(self, x: Shape) -> Number:
        return _share(prod(self.shape(x)), self.ranks)

    def sent_back(self, x: Shape) -> Number:
        return self.sent(x)

    def among(self, peers: Any) -> Self:
        raise ArchError(f"{self.name}: tokens sent to the experts of other ranks are counted, not run")

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return _first(x, self.shared_by, 0).clone()


@dataclass(frozen=True, slots=True, eq=False)
class OwnExperts(Communication):
    """Select the tokens of a rank's experts from all tokens [n, D]: a view [n / ranks, D]."""

    collective_back: ClassVar[str] = "all_gather"
    is_view: ClassVar[bool] = True
    expected: ClassVar[str] = AllToAll.expected

    def shape(self, x: Shape) -> Shape:
        return (part_of(x[0], 1, self.ranks), *x[1:])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        back = Part("d_0", OpClass.MOVEMENT, 0, prod(self.shape(x)), prod(x), wrt=0)
        return (Part("part", OpClass.MOVEMENT, 0, 0, 0, (back,)),)

    def among(self, peers: Any) -> Self:
        raise ArchError(f"{self.name}: experts that ranks share are counted, not run")

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        # rounded up: of few tokens the rank that gets one decides
        return x.narrow(0, 0, -(-x.shape[0] // self.ranks))


@dataclass(frozen=True, slots=True, eq=False)
class BesideOthers(Communication):
    """Outputs [m, D] of the rank's experts among zeros for those of other ranks: [m ranks, D]."""

    drawn: ClassVar[str] = "view"
    collective_back: ClassVar[str] = "all_gather"

    def shape(self, x: Shape) -> Shape:
        return (x[0] * self.ranks, *x[1:])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        back = Part("d_0", OpClass.MOVEMENT, 0, prod(x), prod(x), wrt=0)
        return (movement("zeros", prod(x), prod(x) * self.ranks, (back,)),)

    def among(self, peers: Any) -> Self:
        raise ArchError(f"{self.name}: experts that ranks share are counted, not run")

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.cat([x] + [torch.zeros_like(x)] * (self.ranks - 1))


def _first(x: Any, parts: int, axis: int) -> Any:
    """The first of equal parts along an axis."""
    return x.narrow(axis, 0, x.shape[axis] // parts)


def _scaled(x: Shape, axis: int, size: Number) -> Shape:
    at = axis % len(x)
    return (*x[:at], size, *x[at + 1 :])
