"""Operations of a timed pass: torch's, within those of the architecture. Records only, without torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.arith import Shape
from archcli.graph import Op

Phase = Literal["forward", "backward", "sums"]
"""`sums` are the additions by which autograd accumulates gradients of a tensor that was used twice."""
JOIN = " + "
"""Between the paths of a group of rows that run as one kernel."""


class OpKey(NamedTuple):
    """The key of a torch operation: path of the architecture's op (empty: none), phase and name."""

    path: str
    phase: Phase
    name: str


class ClassKey(NamedTuple):
    """The key of time or cost: an operation of the architecture and a class within it."""

    path: str
    phase: Phase
    op_class: str


class CallTime(NamedTuple):
    """Time and number of calls of a torch operation in one pass."""

    ns: int = 0
    calls: int = 0

    def plus(self, ns: int, calls: int = 0) -> CallTime:
        """The sum of both times and of both numbers of calls."""
        return CallTime(self.ns + ns, self.calls + calls)


REPLICAS = "(weights and gradients of replicas)"
"""The path of FSDP2's own work, such as gathering weights, which is part of no operation."""


class CollectiveTime(NamedTuple):
    """A collective in a pass: calls and bytes sent over a ring, its time, and the part not hidden.

    Those `of_replicas` exchange weights and gradients, beside the operations of the architecture.
    """

    collective: str
    calls: int
    bytes: int
    seconds: float
    exposed_s: float
    of_replicas: bool = False

    def plus(self, more: CollectiveTime) -> CollectiveTime:
        """Both together, of the same kind."""
        return CollectiveTime(
            self.collective,
            self.calls + more.calls,
            self.bytes + more.bytes,
            self.seconds + more.seconds,
            self.exposed_s + more.exposed_s,
        )


class OpInstance(NamedTuple):
    """One run of an operation of the architecture: its path and the shapes of its inputs."""

    path: str
    op: Op
    inputs: tuple[Shape, ...]


class OpTime(NamedTuple):
    """The class of a torch operation, and the median of its time in a pass."""

    path: str
    phase: Phase
    name: str
    op_class: str
    seconds: float
    calls: int


class ExecutedOp(NamedTuple):
    """FLOPs, and elements read and written, of a torch operation in a pass.

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
