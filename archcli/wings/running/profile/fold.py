"""The join of counted costs and measured times, by class and by operator.

Nothing is rescaled: classes, framework and the unattributed rest add up to the plain wall time, also where
the rest is negative.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from archcli.arith import rounded, to_bytes
from archcli.graph import OpClass, Row
from archcli.measure.passes import Pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.wings.running.profile.charges import Charge, charges, line_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import COMMUNICATION, FRAMEWORK, UNATTRIBUTED, TimeClass
from archcli.wings.serving.recorded.machine import Ceilings
from archcli.wings.serving.recorded.operations import REPLICAS
from archcli.wings.serving.recorded.operators import operator_name


@dataclass(slots=True)
class Tally:
    """Counted costs and measured time of a class or an operator, and the seconds of each class within it.

    Of collectives, `bytes` are those that a rank sends, `under_way_s` their seconds beside computing, and
    `seconds` the part that no computing hid.
    """

    flops: int = 0
    matmul_flops: int = 0
    executed_flops: int = 0
    bytes: int = 0
    seconds: float = 0.0
    under_way_s: float = 0.0
    by_class: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def operations_s(self) -> float | None:
        """Seconds of operations, without the framework's; None where there are no operations."""
        of_operations = [seconds for name, seconds in self.by_class.items() if name != FRAMEWORK]
        return sum(of_operations) if of_operations else None

    def add_cost(self, charge: Charge, moved_bytes: int) -> None:
        flops = charge.times * charge.part.flops
        self.flops += flops
        self.matmul_flops += flops if charge.part.op_class is OpClass.CONTRACTION else 0
        self.executed_flops += charge.times * charge.executed
        self.bytes += moved_bytes
        # names the class of an operator that took no time of its own, as one fused into another
        self.by_class[charge.op_class] += 0.0

    def add_time(self, seconds: float, op_class: str) -> None:
        self.seconds += seconds
        self.by_class[op_class] += seconds


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Costs and times of a pass by class and by operator, and of several parts by part.

    `unlabelled_s`, a part of the framework, is the time of torch operations outside of any row. `busy_s` are
    the seconds in which a GPU computed in a traced pass; None on a CPU.
    """

    by_class: dict[str, Tally]
    by_operator: dict[str, Tally]
    wall_s: float
    unlabelled_s: float
    ceilings: Ceilings | None = None
    busy_s: float | None = None
    by_part: dict[str, Tally] = field(default_factory=dict)

    @property
    def whole(self) -> Tally:
        """All counted costs, and the plain wall time."""
        tallies = self.by_class.values()
        return Tally(
            sum(tally.flops for tally in tallies),
            sum(tally.matmul_flops for tally in tallies),
            sum(tally.executed_flops for tally in tallies),
            sum(tally.bytes for tally in tallies),
            self.wall_s,
        )

    @property
    def attributed_share(self) -> float:
        """The share of the plain wall time that operations of the architecture took."""
        rest = {FRAMEWORK, UNATTRIBUTED}
        return sum(tally.seconds for name, tally in self.by_class.items() if name not in rest) / self.wall_s

    def share_of(self, op_class: str) -> float:
        """The share of the plain wall time that a class took."""
        return self.by_class[op_class].seconds / self.wall_s


def fold(
    model: Model,
    counted: Pass,
    recording: Recording,
    dtype: str,
    depth: int = 0,
    ceilings: Ceilings | None = None,
) -> Breakdown:
    """Join the counted rows and the measured times of a pass; paths are folded to `depth` steps (0: all)."""
    has_ranks = recording.collectives is not None
    # every class is in the JSON, but communication only where ranks ran
    by_class = {str(name): Tally() for name in TimeClass if has_ranks or name != COMMUNICATION}
    by_operator: dict[str, Tally] = defaultdict(Tally)
    # a compiled kernel may be of two parts, and is never split
    parts = PartTallies(model, counted.rows if recording.compiled is None else ())
    for charge in charges(model, counted, recording):
        moved = _moved_bytes(charge, dtype)
        of_charge = by_class[charge.op_class], by_operator[operator_name(charge.path, depth)]
        for tally in (*of_charge, parts.at(charge.path)):
            tally.add_cost(charge, moved)
    if has_ranks:
        _add_exchanged(recording, by_class[COMMUNICATION], by_operator, depth)
    for timed in recording.timed:
        by_class[timed.op_class].add_time(timed.seconds, timed.op_class)
        if timed.op_class != FRAMEWORK:
            for tally in (by_operator[line_of(timed, depth)], parts.at(timed.path)):
                tally.add_time(timed.seconds, timed.op_class)
    # read before `framework_s` is added: so far these are torch operations outside of any row
    unlabelled, wall = by_class[FRAMEWORK].seconds, median(recording.plain_s)
    by_class[FRAMEWORK].seconds += recording.framework_s
    by_class[UNATTRIBUTED].seconds = wall - sum(tally.seconds for tally in by_class.values())
    present = {name: tally for name, tally in by_operator.items() if tally.seconds or tally.bytes}
    busy = None if recording.on_device is None else recording.on_device.busy_ns / 1e9
    return Breakdown(by_class, present, wall, unlabelled, ceilings, busy, parts.several)


class PartTallies:
    """Costs and times of each part of a model with towers: towers, projectors, and placing of vectors."""

    def __init__(self, model: Model, rows: Iterable[Row]) -> None:
        self._parts = {row.path: model.part_of(row) for row in rows}
        self._layers = LayerIndex(model)
        # a part stands where it ends: the language model embeds its tokens before all towers
        ends = dict.fromkeys(reversed(self._parts.values()))
        self._tallies: dict[str, Tally] = {part: Tally() for part in reversed(ends)}

    def at(self, path: str) -> Tally:
        """The tally of the part at a path; uncounted operations have one of their own."""
        part = self._parts.get(self._layers.counted_path(path))
        return Tally() if part is None else self._tallies[part]

    @property
    def several(self) -> dict[str, Tally]:
        """The tallies by part; empty for a model of one part."""
        return self._tallies if len(self._tallies) > 1 else {}


def _add_exchanged(recording: Recording, of_class: Tally, by_operator: dict[str, Tally], depth: int) -> None:
    """Add the bytes that a rank sends, and the seconds of its collectives."""
    for path, sent in recording.sent.items():
        for tally in (of_class, by_operator[operator_name(path, depth)]):
            tally.bytes += sent
    for collective in recording.collectives or ():
        of_class.under_way_s += collective.seconds
        if collective.of_replicas:
            by_operator[operator_name(REPLICAS, depth)].under_way_s += collective.seconds


def _moved_bytes(charge: Charge, dtype: str) -> int:
    """Bytes read and written; weights of routed experts once for every expert that a token went to.

    0 for a collective, whose bytes are measured.
    """
    if charge.op_class == COMMUNICATION:
        return 0
    part = charge.part
    # what a part reads has the weights of one expert already
    elements = part.read + part.written + part.weights * (charge.experts - 1)
    moved: int = to_bytes(rounded(charge.times * elements), dtype)
    return moved


class Bound(NamedTuple):
    """The ceiling that limits an operation, and the share of it that was reached.

    The share is above 1 where counted bytes never moved, as in fused kernels.
    """

    roof: Literal["compute", "memory", "cache"]
    share: float


def bound(flops: int, moved: int, seconds: float, ceilings: Ceilings | None) -> Bound | None:
    """Find the ceiling that limits an operation, by its executed FLOPs and bytes: the roofline model.

    Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785, with two bandwidths.

    None without ceilings, where it took no time, and where it neither computed nor moved anything.
    """
    if not ceilings or seconds <= 0 or not (flops or moved):
        return None
    compute_s, memory_s = flops / ceilings["gemm_flops_per_s"], moved / ceilings["dram_bytes_per_s"]
    if compute_s >= memory_s:
        return Bound("compute", compute_s / seconds)
    if memory_s <= seconds:
        return Bound("memory", memory_s / seconds)
    # faster than memory can deliver: the bytes came from a cache
    return Bound("cache", max(compute_s, moved / ceilings["cache_bytes_per_s"]) / seconds)
