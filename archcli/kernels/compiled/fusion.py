"""Which launches of a pass run in one kernel, by the rules of torch's compiler, inductor.

The rules are those of PyTorch 2 (doi:10.1145/3620665.3640366) with the bounds of its configuration. An
element-wise launch is computed wherever its result is read, and never written, unless a library reads it,
the pass returns it, or several read it and it is not cheap. What is left goes over the same elements, or over
the rows of a reduction, and is fused where it shares memory and nothing between needs to run first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from archcli.kernels.compiled.dataflow import DataflowLaunch, FusionKind, MemoryRegion
from archcli.kernels.tensor import TensorMemory

MOST_READS = 4
"""Tensors that an element-wise result may be computed from anew for each reader (realize_reads_threshold)."""
READS_AT_ONCE = 8
"""Tensors that one is computed from at most, for a single reader too (realize_acc_reads_threshold)."""
COSTLY = ("exp", "sigmoid", "silu", "softplus", "elu", "expm1")
"""What is not computed twice on a CPU: exponentials (should_realize_on_reuse)."""


@dataclass(slots=True)
class FusedGroup:
    """Launches that run as one kernel: their numbers in the pass, and regions read from outside of it."""

    stage: str
    times: int
    is_library: bool
    members: dict[int, None]
    reads: dict[MemoryRegion, None]
    written: dict[TensorMemory, MemoryRegion]
    elements: set[int]
    rows: set[int]

    def memories(self) -> set[TensorMemory]:
        """All memory that it reads or writes."""
        return {region.memory for region in self.reads} | self.written.keys()

    def absorb(self, other: FusedGroup) -> None:
        """Run what another runs, too."""
        self.members |= other.members
        self.written |= other.written
        self.reads |= other.reads
        self.elements |= other.elements
        self.rows |= other.rows


def fused_groups(launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]) -> list[FusedGroup]:
    """The groups of a pass in the order of their first results; `returned` is memory that it leaves."""
    groups: list[FusedGroup] = []
    for made in _written_ones(launches, returned):
        into = None if made.is_library else _best(groups, made)
        if into is None:
            groups.append(made)
        else:
            into.absorb(made)
    return groups


def _written_ones(launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]) -> list[FusedGroup]:
    """Each launch whose result is written, with those that are computed on the way."""
    users = _users(launches)
    inlined: dict[TensorMemory, FusedGroup] = {}
    found: list[FusedGroup] = []
    for i, launch in enumerate(launches):
        group = _alone(launch)
        for region in launch.reads:
            within = inlined.get(region.memory)
            group.members |= {} if within is None else within.members
            group.reads |= {region: None} if within is None else within.reads
        group.members = dict.fromkeys(sorted([*group.members, i]))
        memories = [region.memory for region in launch.writes]
        if any(memory in returned for memory in memories) or _is_written(launches, group, i, users):
            found.append(group)
        else:
            inlined |= dict.fromkeys(memories, group)
    return found


def _alone(launch: DataflowLaunch) -> FusedGroup:
    written = {region.memory: region for region in launch.writes}
    is_library = launch.kind is FusionKind.LIBRARY
    over, rows = {launch.elements}, {launch.rows} if launch.kind is FusionKind.REDUCTION else set()
    return FusedGroup(launch.stage, launch.times, is_library, {}, {}, written, over, rows)


def _users(launches: Sequence[DataflowLaunch]) -> dict[TensorMemory, list[int]]:
    """The launches that read each memory."""
    users: dict[TensorMemory, list[int]] = {}
    for i, launch in enumerate(launches):
        for memory in dict.fromkeys(region.memory for region in launch.reads):
            users.setdefault(memory, []).append(i)
    return users


def _is_written(
    launches: Sequence[DataflowLaunch],
    group: FusedGroup,
    i: int,
    users: dict[TensorMemory, list[int]],
) -> bool:
    """Whether a launch's result is written to memory; what nobody reads is not even computed."""
    launch = launches[i]
    readers = [launches[user] for region in launch.writes for user in users.get(region.memory, ())]
    if not readers:
        return False
    if launch.kind is not FusionKind.POINTWISE or len(group.reads) > READS_AT_ONCE:
        return True
    if any(reader.kind is FusionKind.LIBRARY or _is_later(reader, launch) for reader in readers):
        return True
    costly = any(launches[member].kernel.name in COSTLY for member in group.members)
    return len(readers) > 1 and (costly or len(group.reads) > MOST_READS)


def _is_later(reader: DataflowLaunch, launch: DataflowLaunch) -> bool:
    """Whether the backward reads what the forward made."""
    return launch.stage == "forward" != reader.stage


def _best(groups: list[FusedGroup], made: FusedGroup) -> FusedGroup | None:
    """The earlier group that shares most bytes, of those that it can be fused with."""
    memories = made.memories()
    shared = [
        (sum(region.bytes for region in _regions(group) if region.memory in memories), i)
        for i, group in enumerate(groups)
        if _alike(group, made) and group.memories() & memories and not _between(groups, group, made)
    ]
    return groups[max(shared)[1]] if shared else None


def _regions(group: FusedGroup) -> list[MemoryRegion]:
    return [*group.reads, *group.written.values()]


def _alike(group: FusedGroup, made: FusedGroup) -> bool:
    """Whether two groups go over the same elements, or one over the rows of the other."""
    if group.is_library or (group.stage == "forward") != (made.stage == "forward"):
        return False
    over, rows = group.elements | group.rows, made.elements | made.rows
    return bool(group.elements & made.elements or group.rows & rows or made.rows & over)


def _between(groups: Sequence[FusedGroup], group: FusedGroup, made: FusedGroup) -> bool:
    """Whether something must run after the group and before what is made."""
    makers = {memory: one for one in groups for memory in one.written}
    asked = [makers[region.memory] for region in made.reads if region.memory in makers]
    seen: list[FusedGroup] = []
    waiting = [one for one in asked if one is not group]
    while waiting:
        one = waiting.pop()
        if any(one is known for known in seen):
            continue
        seen.append(one)
        before = [makers[region.memory] for region in one.reads if region.memory in makers]
        if any(other is group for other in before):
            return True
        waiting += [other for other in before if other is not one]
    return False
