"""Records of a timed pass: torch's operations within those of the architecture. Without torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.arith import Shape
from archcli.graph import Op

Phase = Literal["forward", "backward", "sums"]
"""`sums` are the additions by which autograd accumulates gradients of a tensor that was used twice."""
JOIN = " + "
"""Joins the paths of rows that run as one kernel."""


class OpKey(NamedTuple):
    """The key of a torch operation: path of the architecture's op (empty: none), phase and name."""

    path: str
    phase: Phase
    name: str


class ClassKey(NamedTuple):
    """The key of time or cost: an operation of the architecture, its phase, and a class within it."""

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
"""The path of FSDP2's work, such as gathering weights, which is part of no operation."""


class CollectiveTime(NamedTuple):
    """A collective in a pass.

    collective: its kind, `all_reduce`.
    calls, bytes: number, and bytes sent over a ring.
    seconds, exposed_s: its time, and the part that no compute hides.
    of_replicas: it exchanges weights or gradients, and is part of no operation of the architecture.
    """

    collective: str
    calls: int
    bytes: int
    seconds: float
    exposed_s: float
    of_replicas: bool = False

    def plus(self, more: CollectiveTime) -> CollectiveTime:
        """The sum of two of the same kind."""
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
    """A torch operation of a pass: key, class, median seconds, calls."""

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
