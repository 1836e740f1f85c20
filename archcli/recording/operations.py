"""Operations of a timed pass: torch's, within those of the architecture. Records only, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from archcli.arith import Shape
from archcli.graph import Op

Phase = Literal["forward", "backward", "sums"]
"""`sums` are the additions by which autograd accumulates gradients of a tensor that was used twice."""


class OpKey(NamedTuple):
    """A torch operation within an operation of the architecture; an empty path is outside of all of them."""

    path: str
    phase: Phase
    name: str


class ClassKey(NamedTuple):
    """The time or the cost of one class within an operation of the architecture."""

    path: str
    phase: Phase
    op_class: str


class CallTime(NamedTuple):
    """Time and calls in one pass."""

    ns: int = 0
    calls: int = 0

    def plus(self, ns: int, calls: int = 0) -> CallTime:
        """The sum with another time and another number of calls."""
        return CallTime(self.ns + ns, self.calls + calls)


class OpInstance(NamedTuple):
    """An operation of the architecture as it ran: at which path, on inputs of what shapes."""

    path: str
    op: Op
    inputs: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class OpTime:
    """The class of a torch operation, and the median of its time in a pass."""

    path: str
    phase: Phase
    name: str
    op_class: str
    seconds: float
    calls: int


class ExecutedOp(NamedTuple):
    """What a torch operation computed and moved in a pass, in elements.

    FLOPs are None where those of a fused kernel are unknown.
    """

    path: str
    phase: Phase
    name: str
    op_class: str
    calls: int
    flops: int | None
    read: int
    written: int
