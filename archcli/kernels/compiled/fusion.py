"""Which loops of a compiled pass run as one kernel, by the rules of inductor's scheduler.

Loops over the same elements, or over the rows of a reduction, are fused where they share memory and nothing
has to run between them. On a CPU, all loops between two calls of a library are one launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archcli.kernels.compiled.lowering import FusedGroup
from archcli.kernels.tensor import TensorMemory

LEAST_SHARED = 10
"""Bytes that loops have in common which do not wait for each other (score_fusion_memory_threshold)."""


def fused_groups(written: Sequence[FusedGroup]) -> list[FusedGroup]:
    """The loops of a graph after fusion, in the order in which they run."""
    groups: list[FusedGroup] = []
    for made in written:
        into = None if made.is_library else _best(groups, made)
        if into is None:
            groups.append(made)
        else:
            into.absorb(made)
    return _in_order(groups)


def cpu_launches(groups: Sequence[FusedGroup]) -> Iterator[list[FusedGroup]]:
    """Groups that a CPU runs in one launch: those between two calls of a library."""
    waiting: list[FusedGroup] = []
    for group in groups:
        if group.is_library:
            yield from [waiting] if waiting else []
            yield [group]
            waiting = []
        else:
            waiting.append(group)
    yield from [waiting] if waiting else []


def _in_order(groups: Sequence[FusedGroup]) -> list[FusedGroup]:
    """Groups by their first results, each behind those that it reads."""
    makers = _makers(groups)
    placed: dict[int, FusedGroup] = {}

    def place(group: FusedGroup) -> None:
        if id(group) not in placed:
            for maker in _asked(group, makers):
                place(maker)
            placed.setdefault(id(group), group)

    for group in groups:
        place(group)
    return list(placed.values())


def _best(groups: Sequence[FusedGroup], made: FusedGroup) -> FusedGroup | None:
    """The earlier group that shares most bytes, of those that it can be fused with."""
    makers = _makers(groups)
    read = {region.memory for region in made.reads}
    best: tuple[int, int] = (0, -1)
    for i, group in enumerate(groups):
        if group.is_library or not _alike(group, made):
            continue
        shared = _shared(group, made)
        needed = 1 if group.memories() & read else LEAST_SHARED
        if shared >= needed and (shared, i) > best and not _between(group, made, makers):
            best = shared, i
    return groups[best[1]] if best[0] else None


def _alike(group: FusedGroup, made: FusedGroup) -> bool:
    """Whether two groups go over the same elements, or one over the rows of the other."""
    over = made.elements | made.rows
    return bool(group.elements & made.elements or group.rows & over or made.rows & group.elements)


def _shared(group: FusedGroup, made: FusedGroup) -> int:
    """Bytes that both read or write."""
    memories = {region.memory for region in [*made.reads, *made.written]}
    return sum(region.bytes for region in [*group.reads, *group.written] if region.memory in memories)


def _makers(groups: Sequence[FusedGroup]) -> dict[TensorMemory, list[FusedGroup]]:
    """The groups that write each memory."""
    makers: dict[TensorMemory, list[FusedGroup]] = {}
    for group in groups:
        for memory in group.memories():
            makers.setdefault(memory, []).append(group)
    return makers


def _asked(group: FusedGroup, makers: dict[TensorMemory, list[FusedGroup]]) -> list[FusedGroup]:
    """The other groups whose results a group reads."""
    makers_of_reads = [one for region in group.reads for one in makers.get(region.memory, ())]
    return [one for one in makers_of_reads if one is not group]


def _between(group: FusedGroup, made: FusedGroup, makers: dict[TensorMemory, list[FusedGroup]]) -> bool:
    """Whether something must run after the group and before what is made."""
    seen: set[int] = set()
    waiting = [one for one in _asked(made, makers) if one is not group]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        before = _asked(one, makers)
        if any(other is group for other in before):
            return True
        waiting += before
    return False
