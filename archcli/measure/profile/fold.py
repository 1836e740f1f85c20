"""The join of what the rows cost and what was measured of them, by class and by path.

Nothing is rescaled: classes, framework and the unattributed rest add up to the plain wall time, whatever sign the rest has.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from archcli.arith import rounded, to_bytes
from archcli.measure.passes import Pass
from archcli.measure.profile.reports.groups import charges, label
from archcli.recording.ceilings import Ceilings
from archcli.recording.classes import FRAMEWORK, FUSED, UNATTRIBUTED, TimeClass

if TYPE_CHECKING:
    from archcli.recording.operations import ClassKey, OpTime
    from archcli.recording.recording import Recording

SUMS = "(gradient sums)"
"""The path of additions of gradients that meet, which belong to no one operator."""


@dataclass(slots=True)
class Entry:
    """What a class or an operator costs, how long it took, and the seconds of each class within it."""

    flops: int = 0
    executed_flops: int = 0
    bytes: int = 0
    seconds: float = 0.0
    by_class: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def operations_s(self) -> float | None:
        """Seconds of operations of the rows alone; None of what no operation is, such as the framework."""
        found = [seconds for name, seconds in self.by_class.items() if name != FRAMEWORK]
        return sum(found) if found else None

    def cost(self, flops: int, executed: int, moved: int, op_class: str) -> None:
        """Add what was counted."""
        self.flops, self.executed_flops, self.bytes = (
            self.flops + flops,
            self.executed_flops + executed,
            self.bytes + moved,
        )
        self.by_class[op_class] += 0.0

    def spend(self, seconds: float, op_class: str) -> None:
        """Add what was measured."""
        self.seconds += seconds
        self.by_class[op_class] += seconds


@dataclass(frozen=True, slots=True)
class Folded:
    """Costs and times by class and by path; `unlabelled_s` is the part of the framework that torch operations outside of any row took.

    `busy_s` is how long a GPU computed in a traced pass; None on a CPU.
    """

    by_class: dict[str, Entry]
    by_path: dict[str, Entry]
    wall_s: float
    unlabelled_s: float
    ceilings: Ceilings | None = None
    busy_s: float | None = None

    @property
    def whole(self) -> Entry:
        """All counted costs, and the plain wall time."""
        entries = self.by_class.values()
        return Entry(
            sum(each.flops for each in entries),
            sum(each.executed_flops for each in entries),
            sum(each.bytes for each in entries),
            self.wall_s,
        )

    @property
    def attributed_share(self) -> float:
        """The share of the plain wall time that operations of the rows took."""
        return (
            sum(
                entry.seconds
                for name, entry in self.by_class.items()
                if name not in {FRAMEWORK, UNATTRIBUTED}
            )
            / self.wall_s
        )


def fold(
    counted: Pass, recording: Recording, dtype: str, depth: int, ceilings: Ceilings | None = None
) -> Folded:
    """Join counted rows and measured times on the row's path, folded to `depth` steps (0: all of them).

    A row whose attention ran as one fused kernel counts as that class with all its parts; rows that a compiler fused count together.
    The weights of routed experts count once for each expert that a token of the run went to.
    """
    by_class = {str(name): Entry() for name in TimeClass}
    by_path: dict[str, Entry] = defaultdict(Entry)
    for one in charges(counted, recording, FUSED):
        part, times = one.part, one.times
        moved = to_bytes(
            rounded(times * (part.read + part.written + part.weights * (one.experts - 1))), dtype
        )
        for entry in (by_class[one.op_class], by_path[label(one.path, depth)]):
            entry.cost(times * part.flops, times * one.executed, moved, one.op_class)
    for timed in recording.timed:
        by_class[timed.op_class].spend(timed.seconds, timed.op_class)
        if timed.op_class != FRAMEWORK:
            by_path[place_of(timed, depth)].spend(timed.seconds, timed.op_class)
    unlabelled, wall = by_class[FRAMEWORK].seconds, median(recording.plain_s)
    by_class[FRAMEWORK].seconds += recording.framework_s
    by_class[UNATTRIBUTED].seconds = wall - sum(entry.seconds for entry in by_class.values())
    seen = {path: entry for path, entry in by_path.items() if entry.seconds or entry.bytes}
    busy = None if recording.on_device is None else recording.on_device.busy_ns / 1e9
    return Folded(by_class, seen, wall, unlabelled, ceilings, busy)


def place_of(timed: OpTime | ClassKey, depth: int) -> str:
    """The path under which a table shows what took the time."""
    return SUMS if timed.phase == "sums" else label(timed.path, depth)
