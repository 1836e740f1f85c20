"""The join of what the rows cost and what was measured of them, by class and by path.

Nothing is rescaled: classes, framework and the unattributed rest add up to the plain wall time, whatever sign the rest has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any

from archcli.arith import rounded, to_bytes
from archcli.graph import OpClass, Part, Row
from archcli.measure.passes import Pass, folded_path
from archcli.ops import Attend

if TYPE_CHECKING:
    from archcli.runtime.profile import Recording, Timed
    from archcli.runtime.profile_variants import Place

FUSED, RANDOM, FRAMEWORK, UNATTRIBUTED = "fused_attention", "random", "framework", "unattributed"
CLASSES = (*(str(each) for each in OpClass), FUSED, RANDOM, FRAMEWORK, UNATTRIBUTED)
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
        self.flops, self.executed_flops, self.bytes = self.flops + flops, self.executed_flops + executed, self.bytes + moved
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
    ceilings: Mapping[str, Any] | None = None
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
        return sum(entry.seconds for name, entry in self.by_class.items() if name not in {FRAMEWORK, UNATTRIBUTED}) / self.wall_s


def fold(counted: Pass, recording: Recording, dtype: str, depth: int, ceilings: Mapping[str, Any] | None = None) -> Folded:
    """Join counted rows and measured times on the row's path, folded to `depth` steps (0: all of them).

    A row whose attention ran as one fused kernel counts as that class with all its parts. The weights of routed experts
    count once for each expert that a token of the run went to.
    """
    by_class = {name: Entry() for name in CLASSES}
    by_path: dict[str, Entry] = defaultdict(Entry)
    fused = {timed.path for timed in recording.timed if timed.op_class == FUSED}
    reached = _reached(recording)
    for row in counted.rows:
        for part in _pieces(row, counted.phase):
            name = FUSED if row.path in fused else str(part.op_class)
            executed = part.flops if row.path in fused and _skips_masked(row) else part.dense_flops
            again = part.weights * (reached.get(folded_path(row.path), 1) - 1)
            moved = to_bytes(rounded(row.times * (part.read + part.written + again)), dtype)
            for entry in (by_class[name], by_path[folded_path(row.path, depth or None)]):
                entry.cost(row.times * part.flops, row.times * executed, moved, name)
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


def _reached(recording: Recording) -> dict[str, Fraction]:
    """How many experts' weights a row of routed experts moved, the mean over the layers that share its folded path."""
    found: dict[str, list[int]] = defaultdict(list)
    for path, experts in recording.reached.items():
        found[folded_path(path)].append(experts)
    return {path: Fraction(sum(each), len(each)) for path, each in found.items()}


def _pieces(row: Row, phase: str) -> Iterator[Part]:
    for part in row.parts:
        if part.training and phase != "train":
            continue
        yield part
        if phase == "train":
            yield from part.backward


def _skips_masked(row: Row) -> bool:
    """Whether a fused kernel is told only that attention is causal: it leaves masked blocks out, where under any other mask it does not."""
    if not isinstance(row.op, Attend):
        return False
    new, visible = row.inputs[0][1], row.inputs[1][1]
    return row.op.mask.covers(new, visible) and new in (1, visible)


def place_of(timed: Timed | Place, depth: int) -> str:
    """The path under which a table shows what took the time."""
    return SUMS if timed.phase == "sums" else folded_path(timed.path, depth or None)
