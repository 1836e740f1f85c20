"""Compiled kernels of a pass: fuse loops by the rules of inductor's scheduler, and add up their cost.

Two loops over the same elements, or over the rows of a reduction, are fused if they share memory and no other
loop must run between them. On a CPU, all loops between two calls of a library are one launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from archcli.graph.kept import Execution
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.compiled.dataflow import DataflowLaunch, DataflowLog, MemoryRegion
from archcli.wings.serving.launches.compiled.lowering import FusedGroup, Lowering, compiled_order, readers
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.launches.tensor import TensorMemory
from archcli.wings.serving.launches.trace import run_pass
from archcli.wings.serving.recorded.classes import FUSED_KERNELS, class_of
from archcli.wings.serving.recorded.operations import JOIN, OpKey

LEAST_SHARED = 10
"""Bytes that independent loops must share to be fused (inductor's score_fusion_memory_threshold)."""


def fused_groups(written: Sequence[FusedGroup]) -> list[FusedGroup]:
    """The loops of a graph after fusion, in the order in which they run."""
    groups: list[FusedGroup] = []
    for group in written:
        into = None if group.is_library else _best(groups, group)
        if into is None:
            groups.append(group)
        else:
            into.absorb(group)
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
    """A topological order: groups by their first results, each after those that it reads."""
    makers = _makers(groups)
    placed: dict[int, FusedGroup] = {}

    def place(group: FusedGroup) -> None:
        if id(group) not in placed:
            for maker in _sources(group, makers):
                place(maker)
            placed.setdefault(id(group), group)

    for group in groups:
        place(group)
    return list(placed.values())


def _best(groups: Sequence[FusedGroup], new: FusedGroup) -> FusedGroup | None:
    """The earlier group to fuse with: of all allowed ones that which shares the most bytes."""
    makers = _makers(groups)
    read = {region.memory for region in new.reads}
    best: tuple[int, int] = (0, -1)
    for i, group in enumerate(groups):
        if group.is_library or not _alike(group, new):
            continue
        shared = _shared(group, new)
        # a reader fuses with its producer from 1 byte on, independent loops from LEAST_SHARED
        needed = 1 if group.memories() & read else LEAST_SHARED
        if shared >= needed and (shared, i) > best and not _between(group, new, makers):
            best = shared, i
    return groups[best[1]] if best[0] else None


def _alike(group: FusedGroup, new: FusedGroup) -> bool:
    """Whether two groups have a loop of equal size: over elements, or over the rows of a reduction."""
    over = new.elements | new.rows
    return bool(group.elements & new.elements or group.rows & over or new.rows & group.elements)


def _shared(group: FusedGroup, new: FusedGroup) -> int:
    """Bytes of memory that both groups read or write."""
    memories = {region.memory for region in [*new.reads, *new.written]}
    return sum(region.bytes for region in [*group.reads, *group.written] if region.memory in memories)


def _makers(groups: Sequence[FusedGroup]) -> dict[TensorMemory, list[FusedGroup]]:
    """The groups that write each memory."""
    makers: dict[TensorMemory, list[FusedGroup]] = {}
    for group in groups:
        for memory in group.memories():
            makers.setdefault(memory, []).append(group)
    return makers


def _sources(group: FusedGroup, makers: dict[TensorMemory, list[FusedGroup]]) -> list[FusedGroup]:
    """The other groups whose results a group reads."""
    of_reads = [maker for region in group.reads for maker in makers.get(region.memory, ())]
    return [maker for maker in of_reads if maker is not group]


def _between(group: FusedGroup, new: FusedGroup, makers: dict[TensorMemory, list[FusedGroup]]) -> bool:
    """Whether a third group must run after the group and before the one being placed."""
    seen: set[int] = set()
    waiting = [source for source in _sources(new, makers) if source is not group]
    while waiting:
        source = waiting.pop()
        if id(source) in seen:
            continue
        seen.add(id(source))
        before = _sources(source, makers)
        if any(earlier is group for earlier in before):
            return True
        waiting += before
    return False


def compiled_kernels(
    model: Model, request: Request, execution: Execution | None = None, *, dtype: str = ""
) -> tuple[KernelRun, ...]:
    """The kernels of a compiled pass: each has the paths of its rows joined by ` + `, as in a profile.

    A launch that several kernels compute is charged to the first. A kernel that stands for some in several
    layers has the mean of their FLOPs, rounded down. Options and errors as of `trace_kernels`.
    """
    log = DataflowLog()
    left = run_pass(log, model, request, execution or Execution(), dtype)
    # a dict, not a set: memories hash by id, and the order of a set would differ from run to run
    returned = dict.fromkeys([log.now(x.storage) for x in left])
    total: dict[KernelRun, float] = {}
    forward, backward = _graphs(log.sequence)
    first = {launch.origin.path: launch.number for launch in reversed(log.sequence)}
    for launches, outside in ((forward, returned | dict.fromkeys(readers(backward))), (backward, returned)):
        for run in _runs(compiled_order(launches, outside), outside, log.backend, first):
            alike = run._replace(times=0)
            total[alike] = total.get(alike, 0) + run.times
    return tuple([run._replace(times=times) for run, times in total.items()])


def _graphs(launches: Sequence[DataflowLaunch]) -> tuple[list[DataflowLaunch], list[DataflowLaunch]]:
    """The launches of the forward and of the backward, which torch compiles separately."""
    forward = [launch for launch in launches if launch.stage == "forward"]
    return forward, [launch for launch in launches if launch.stage != "forward"]


def _runs(
    launches: Sequence[DataflowLaunch],
    returned: Collection[TensorMemory],
    backend: str,
    first: Mapping[str, int],
) -> Iterator[KernelRun]:
    """The kernels of a graph, each with the launches that no earlier one computed.

    Its rows are in the order in which they `first` ran; sums of gradients are of no row beside others.
    """
    groups = fused_groups(list(Lowering(launches, returned, backend).written()))
    read_by = Counter(memory for group in groups for memory in {region.memory for region in group.reads})
    charged: set[int] = set()
    for together in cpu_launches(groups) if backend == "cpu" else [[group] for group in groups]:
        members = dict.fromkeys(sorted(i for group in together for i in group.members))
        new = [i for i in members if i not in charged]
        charged.update(new)
        computed = [launches[i] for i in new or members]
        held = [launch for launch in computed if launch.stage != "sums"] or computed
        held.sort(key=lambda launch: (first[launch.origin.path], launch.number))
        times = computed[-1].times
        kernel = KernelCost(
            _name([launches[i] for i in members]),
            sum(launches[i].kernel.flops * launches[i].times for i in new) // times,
            sum(_bytes(_inputs(group)) for group in together),
            sum(_bytes(_outputs(group, read_by, returned)) for group in together),
            held[-1].kernel.dtype,
        )
        yield KernelRun(_path(held), held[0].stage, kernel, _op_class(held), times)


def _inputs(group: FusedGroup) -> Iterator[MemoryRegion]:
    """The regions that a group reads and does not write itself."""
    written = group.memories()
    return (region for region in group.reads if region.memory not in written)


def _outputs(
    group: FusedGroup, read_by: Mapping[TensorMemory, int], returned: Collection[TensorMemory]
) -> Iterator[MemoryRegion]:
    """The regions that a group writes and another group reads, or the pass returns."""
    reads = {region.memory for region in group.reads}
    for region in group.written:
        if region.memory in returned or read_by[region.memory] > (region.memory in reads):
            yield region


def _bytes(regions: Iterable[MemoryRegion]) -> int:
    """Bytes of regions; of one memory at most its size, as regions may overlap."""
    of_memory: Counter[TensorMemory] = Counter()
    most: dict[TensorMemory, int] = {}
    for region in regions:
        of_memory[region.memory] += region.bytes
        most[region.memory] = region.memory.elements * region.itemsize
    return sum(min(size, most[memory]) for memory, size in of_memory.items())


def _name(held: Sequence[DataflowLaunch]) -> str:
    """Torch's name of one launch, or those of several as a compiler joins them."""
    names = sorted({launch.kernel.name.strip("_") for launch in held})
    return held[0].kernel.name if len(held) == 1 else "_".join(["fused", *names])


def _path(held: Sequence[DataflowLaunch]) -> str:
    """The paths of a group's rows that cost something, or of all if none does."""
    costing = dict.fromkeys(launch.origin.path for launch in held if launch.origin.parts)
    return JOIN.join(costing or dict.fromkeys(launch.origin.path for launch in held))


def _op_class(held: Sequence[DataflowLaunch]) -> str:
    """The class of all launches, or that of mixed kernels if they differ."""
    classes = {
        class_of(OpKey(x.origin.path, x.stage, x.kernel.name), x.origin.parts)
        for x in held
        if x.origin.parts or not any(launch.origin.parts for launch in held)
    }
    return classes.pop() if len(classes) == 1 else str(FUSED_KERNELS)
