"""Lowering of a compiled pass: results that are written or inlined, and the order of launches.

The rules are those of torch's compiler, inductor (PyTorch 2, doi:10.1145/3620665.3640366),
with the bounds of its configuration. An element-wise launch is never written, unless a library reads it, the
pass returns it, it is computed from many tensors, or several read it and it is not cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from archcli.wings.serving.launches.compiled.dataflow import DataflowLaunch, FusionKind, MemoryRegion
from archcli.wings.serving.launches.tensor import TensorMemory


def readers(launches: Sequence[DataflowLaunch]) -> dict[TensorMemory, list[int]]:
    """The numbers of the launches that read each memory."""
    by_memory: dict[TensorMemory, list[int]] = {}
    for i, launch in enumerate(launches):
        for memory in dict.fromkeys(region.memory for region in launch.reads):
            by_memory.setdefault(memory, []).append(i)
    return by_memory


def compiled_order(
    launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]
) -> list[DataflowLaunch]:
    """The launches of a pass without dead ones, each moved right before its first reader.

    As inductor's `reorder_for_locality`, from the last launch to the first. A launch with several results,
    or with a result that is split, stays in its place.
    """
    wanted = _wanted(launches, returned)
    makers = {region.memory: i for i in wanted for region in launches[i].writes}
    users = readers(launches)
    order, seen = list(wanted), set[int]()
    # from the end, so that all readers of a launch are seen before it
    at = len(order) - 1
    while at >= 0:
        seen.add(order[at])
        for region in launches[order[at]].reads:
            maker = makers.get(region.memory)
            if maker is None or _stays(launches[maker]):
                continue
            if all(user in seen for user in users[region.memory] if user in wanted):
                before = order.index(maker)
                if before < at:
                    # pop shifts this launch to at - 1; the insert shifts it back to at, the maker before it
                    order.insert(at - 1, order.pop(before))
        at -= 1
    return [launches[i] for i in order]


def _stays(launch: DataflowLaunch) -> bool:
    """Whether a launch keeps its place: it has several results, or one that is split."""
    return len(launch.writes) > 1 or any(region.memory.is_split for region in launch.writes)


def _wanted(launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]) -> dict[int, None]:
    """Numbers of the launches that a returned result depends on, in order."""
    needed, leading = set(returned), list[int]()
    for i in reversed(range(len(launches))):
        launch = launches[i]
        if any(region.memory in needed for region in launch.writes):
            leading.append(i)
            needed |= {region.memory for region in launch.reads}
    return dict.fromkeys(reversed(leading))


REUSED_READS = 4
"""The most tensors that a result of several readers is computed from anew (realize_reads_threshold)."""
READS = {"cpu": 12, "cuda": 8}
"""The most tensors that any result is computed from (realize_cpu_acc_reads_threshold, and its default)."""
COSTLY = {
    "cpu": {"exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh", "silu", "softplus"},
    "cuda": set[str](),
}
"""Kernels too costly to compute twice: logarithms and exponentials on a CPU (should_realize_on_reuse)."""
SEVERAL = 2
"""Uses of a result from which on it is not always inlined."""
JOINED = "cat"
"""The launch of torch.cat; on a CPU each input is written straight into its part of the result."""


@dataclass(slots=True)
class FusedGroup:
    """Launches that run in one loop, a fused kernel.

    is_library: a call of a library such as cuBLAS, which fuses with nothing.
    members: numbers of its launches.
    reads: regions that it reads from outside.
    written: regions that it writes.
    elements: sizes of its loops.
    rows: sizes of the loops of its reductions.
    """

    is_library: bool
    members: dict[int, None]
    reads: dict[MemoryRegion, None]
    written: dict[MemoryRegion, None]
    elements: set[int]
    rows: set[int]

    def memories(self) -> set[TensorMemory]:
        """The memory that it writes."""
        return {region.memory for region in self.written}

    def absorb(self, group: FusedGroup) -> None:
        """Take in the launches of another group."""
        self.members |= group.members
        self.written |= group.written
        self.reads |= group.reads
        self.elements |= group.elements
        self.rows |= group.rows


class Lowering:
    """Groups the launches of a graph into fused loops; `returned` is the memory of the graph's results."""

    def __init__(
        self, launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory], backend: str
    ) -> None:
        self.launches, self.returned, self.backend = launches, returned, backend
        self.users = readers(launches)
        self.inlined: dict[TensorMemory, FusedGroup] = {}

    def written(self) -> Iterator[FusedGroup]:
        """A group for each result that is written, with the launches inlined into it.

        Inputs of a library call are written right before it. Results that nothing reads are written last.
        """
        for i, launch in enumerate(self.launches):
            if launch.kernel.name == JOINED and self.backend == "cpu":
                yield from self._joined(i, launch)
                continue
            if launch.kind is FusionKind.LIBRARY:
                yield from self._written_now([region.memory for region in launch.reads])
            group = self._computed(i, launch, launch.reads)
            if self._is_written(launch, group):
                yield group
            else:
                self.inlined |= dict.fromkeys([region.memory for region in launch.writes], group)
        yield from self._written_now(self.returned)

    def _written_now(self, memories: Iterable[TensorMemory]) -> Iterator[FusedGroup]:
        """Write the results in these memories that were left to inline."""
        for memory in memories:
            if memory in self.inlined:
                yield self.inlined.pop(memory)

    def _computed(self, i: int, launch: DataflowLaunch, reads: Sequence[MemoryRegion]) -> FusedGroup:
        """The launch, with the launches inlined into it in place of its reads."""
        members, regions = {i: None}, dict[MemoryRegion, None]()
        for region in reads:
            within = self.inlined.get(region.memory)
            members |= {} if within is None else within.members
            regions |= {region: None} if within is None else within.reads
        rows = {launch.rows} if launch.kind is FusionKind.REDUCTION else set[int]()
        return FusedGroup(
            launch.kind is FusionKind.LIBRARY,
            dict.fromkeys(sorted(members)),
            regions,
            dict.fromkeys(launch.writes),
            {launch.elements},
            rows,
        )

    def _joined(self, i: int, launch: DataflowLaunch) -> Iterator[FusedGroup]:
        """A group for each joined tensor: computed or copied into its part of the result."""
        (whole,) = launch.writes
        for region in launch.reads:
            elements = region.bytes // region.itemsize
            if elements:
                group = self._computed(i, launch, [region])
                part = region._replace(memory=whole.memory, offset=region.offset)
                group.written, group.elements = {part: None}, {elements}
                yield group

    def _is_written(self, launch: DataflowLaunch, group: FusedGroup) -> bool:
        """Whether a launch's result is written to memory, not inlined into its readers."""
        memories = [region.memory for region in launch.writes]
        if launch.kind is not FusionKind.POINTWISE or len(group.reads) > READS[self.backend]:
            return True
        # of few inputs: inlined for a single reader; for several only if cheap and no library reads it
        users = [self.launches[user] for memory in memories for user in self.users.get(memory, ())]
        is_returned = any(memory in self.returned for memory in memories)
        if len(users) + is_returned < SEVERAL:
            return False
        names = {self.launches[member].kernel.name for member in group.members}
        is_costly = len(group.reads) > REUSED_READS or bool(names & COSTLY[self.backend])
        return is_costly or is_returned or any(user.kind is FusionKind.LIBRARY for user in users)
