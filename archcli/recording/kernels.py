"""Kernels of a compiled model, and the operations of the architecture that were fused into each. No torch.

A kernel that holds several operations belongs to all of them and is never split: its path is theirs, joined. It has
their class where they have one, else a class of its own. An operation's cost is charged to the first kernel that runs
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from archcli.graph import OpClass
from archcli.recording.classes import FRAMEWORK, FUSED, FUSED_KERNELS, class_of, is_fused, is_product
from archcli.recording.operations import OpInstance, OpKey, Phase

JOIN = " + "
"""Between the paths of a group."""
Home = tuple[str, str, str]
"""(path, phase, class of cost) of an operation of the architecture; an empty class stands for any."""


class GraphOp(NamedTuple):
    """A node of a compiled graph: the path of the operation it was traced in, and torch's name.

    The path is empty for a sum of gradients.
    """

    path: str
    name: str


class Launch(NamedTuple):
    """A kernel launch of the compiled code: its name in a trace, what it is first to compute, whether a library's."""

    name: str
    pieces: tuple[GraphOp, ...]
    library: bool


@dataclass(slots=True)
class CompiledGraph:
    """A compiled graph, forward or backward, and its launches in order."""

    backward: bool
    launches: list[Launch] = field(default_factory=list)


class KernelGroup(NamedTuple):
    """The line of a report for kernels that hold the same operations: their joined path, and their class."""

    path: str
    op_class: str


class Kernel(NamedTuple):
    """A launch of the compiled code: its key in a trace, its class, and (path, class) of all that it computes."""

    key: OpKey
    op_class: str
    pieces: tuple[tuple[str, str], ...]
    library: bool


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A compiled model: the kernels of its graphs in order, and the seconds that compiling took.

    `homes` says which kernels an operation's cost of a class is charged to. Operations without a kernel are either
    `shared` (an equal operation's result serves both) or `missing`.
    """

    graphs: tuple[tuple[Kernel, ...], ...]
    homes: Mapping[Home, KernelGroup]
    shared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0

    def home(self, path: str, phase: str, op_class: str) -> KernelGroup | None:
        """The kernels that an operation's cost of a class is charged to: of that class, else a library's, else any."""
        return self.homes.get((path, phase, op_class)) or self.homes.get((path, phase, ""))

    @property
    def kernels(self) -> list[Kernel]:
        """All launches of a pass."""
        return [kernel for graph in self.graphs for kernel in graph]


def compiled_of(
    graphs: Sequence[CompiledGraph], ran: Mapping[str, OpInstance], seconds: float = 0.0
) -> CompiledModel:
    """Join what was compiled with the operations that run."""
    order = sorted(graphs, key=lambda graph: graph.backward)
    fused = {
        (piece.path, graph.backward)
        for graph in order
        for each in graph.launches
        if is_fused(each.name)
        for piece in each.pieces
    }
    made = tuple(
        tuple(_kernel(each, ran, fused, backward=graph.backward) for each in graph.launches)
        for graph in order
    )
    homes = _homes([kernel for kernels in made for kernel in kernels])
    lost = [each for each in ran.values() if _computes(each) and (each.path, "forward", "") not in homes]
    held = {_content(each) for each in ran.values() if (each.path, "forward", "") in homes}
    shared, missing = (
        tuple(each.path for each in lost if (_content(each) in held) is found) for found in (True, False)
    )
    return CompiledModel(made, homes, shared, missing, seconds)


def _computes(ran: OpInstance) -> bool:
    return any(part.flops for part in ran.op.parts(*ran.inputs) if not part.training)


def _content(ran: OpInstance) -> str:
    """An operation without its name: what two that can share a result have in common."""
    return repr((ran.op, ran.inputs)).replace(f"name={ran.op.name!r}", "")


def _kernel(
    launch: Launch, ran: Mapping[str, OpInstance], fused: set[tuple[str, bool]], *, backward: bool
) -> Kernel:
    phase: Phase = "backward" if backward else "forward"
    parts = {
        path: ran[path].op.parts(*ran[path].inputs)
        for path in ran
        if any(piece.path == path for piece in launch.pieces)
    }
    costing = [path for path, own in parts.items() if own] or list(parts)
    if not costing:  # of no operation: sums of gradients that meet, or something of torch's own
        key = OpKey("", "sums" if backward else phase, launch.name)
        return Kernel(key, OpClass.ELEMENTWISE if backward else FRAMEWORK, (), launch.library)
    pieces = dict.fromkeys(
        (
            each.path,
            FUSED
            if (each.path, backward) in fused
            else str(class_of(OpKey(each.path, phase, each.name), parts[each.path])),
        )
        for each in launch.pieces
        if each.path in costing
    )
    classes = {op_class for _, op_class in pieces}
    op_class = classes.pop() if len(classes) == 1 else FUSED_KERNELS
    if launch.library and is_product(launch.name):
        op_class = OpClass.CONTRACTION
    elif is_fused(launch.name):
        op_class = FUSED
    return Kernel(OpKey(JOIN.join(costing), phase, launch.name), op_class, tuple(pieces), launch.library)


def _homes(kernels: Iterable[Kernel]) -> dict[Home, KernelGroup]:
    """The first kernel for each class of what an operation does; for what has none, the first of a library's, else the first."""
    homes: dict[Home, KernelGroup] = {}
    for kernel in sorted(
        kernels, key=lambda kernel: not kernel.library
    ):  # stable: each sort stays in the order of running
        for path, _ in kernel.pieces:
            homes.setdefault((path, kernel.key.phase, ""), KernelGroup(kernel.key.path, kernel.op_class))
    for kernel in kernels:
        for path, op_class in kernel.pieces:
            homes.setdefault(
                (path, kernel.key.phase, op_class), KernelGroup(kernel.key.path, kernel.op_class)
            )
    return homes
