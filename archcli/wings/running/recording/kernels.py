"""Kernels of a compiled model, and the operations of the architecture fused into each. No torch.

A kernel of several operations is never split: its path is theirs, joined. Its class is theirs if they share
one, else that of mixed kernels. The cost of an operation is charged to the first kernel that runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from archcli.graph import OpClass
from archcli.wings.serving.recorded.classes import (
    FRAMEWORK,
    FUSED,
    FUSED_KERNELS,
    class_of,
    is_fused,
    is_product,
)
from archcli.wings.serving.recorded.operations import JOIN, OpInstance, OpKey, Phase

CostKey = tuple[str, str, str]
"""(path, phase, class of cost) of an operation of the architecture; an empty class stands for any."""


class GraphOp(NamedTuple):
    """A node of a compiled graph: the path of the operation it was traced in, and torch's name.

    The path is empty for a sum of gradients.
    """

    path: str
    name: str


class Launch(NamedTuple):
    """A kernel launch in compiled code: the kernel's name, and the nodes that no earlier kernel computed."""

    name: str
    pieces: tuple[GraphOp, ...]
    library: bool


@dataclass(slots=True)
class CompiledGraph:
    """A compiled graph, forward or backward, and its launches in order."""

    backward: bool
    launches: list[Launch] = field(default_factory=list)


class KernelGroup(NamedTuple):
    """Kernels that compute the same operations: the paths of these joined by ` + `, and the class."""

    path: str
    op_class: str


class Kernel(NamedTuple):
    """A kernel of a pass: its key in a trace, its class, and (path, class) of all that it computes."""

    key: OpKey
    op_class: str
    pieces: tuple[tuple[str, str], ...]
    library: bool


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A compiled model: the kernels of its graphs in order, and the seconds that compiling took.

    graphs: kernels of each graph.
    charged_groups: the kernels to which the cost of an operation is charged, by class.
    shared: operations without a kernel, as an equal operation's result serves both.
    missing: other operations without a kernel.
    seconds: of compiling.
    """

    graphs: tuple[tuple[Kernel, ...], ...]
    charged_groups: Mapping[CostKey, KernelGroup]
    shared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0

    def charged_group(self, path: str, phase: str, op_class: str) -> KernelGroup | None:
        """The kernels that an operation's cost is charged to: of the same class, else any that run it."""
        return self.charged_groups.get((path, phase, op_class)) or self.charged_groups.get((path, phase, ""))

    @property
    def kernels(self) -> list[Kernel]:
        """All launches of a pass."""
        return [kernel for graph in self.graphs for kernel in graph]


def join_kernels(
    graphs: Sequence[CompiledGraph], ran: Mapping[str, OpInstance], seconds: float = 0.0
) -> CompiledModel:
    """Match the kernels of compiled graphs with the operations of the architecture that run in them."""
    # backward graphs last, as they run; they may be compiled in another order
    order = sorted(graphs, key=lambda graph: graph.backward)
    fused = {key for graph in order for key in _fused_attention(graph)}
    kernels = tuple(
        tuple(_kernel(launch, ran, fused, backward=graph.backward) for launch in graph.launches)
        for graph in order
    )
    charged_groups = _charged_groups([kernel for of_graph in kernels for kernel in of_graph])
    in_kernels = {path for path, phase, _ in charged_groups if phase == "forward"}
    contents = {_anonymous(op) for op in ran.values() if op.path in in_kernels}
    uncovered = [op for op in ran.values() if _has_flops(op) and op.path not in in_kernels]
    shared = tuple(op.path for op in uncovered if _anonymous(op) in contents)
    missing = tuple(op.path for op in uncovered if _anonymous(op) not in contents)
    return CompiledModel(kernels, charged_groups, shared, missing, seconds)


def _fused_attention(graph: CompiledGraph) -> Iterator[tuple[str, bool]]:
    """(path, backward) of the operations that ran as one attention kernel."""
    for launch in graph.launches:
        if is_fused(launch.name):
            yield from ((piece.path, graph.backward) for piece in launch.pieces)


def _has_flops(ran: OpInstance) -> bool:
    return any(part.flops for part in ran.op.parts(*ran.inputs) if not part.training)


def _anonymous(ran: OpInstance) -> str:
    """A key of an operation without its name, equal for operations that can share a result."""
    return repr((ran.op, ran.inputs)).replace(f"name={ran.op.name!r}", "")


def _kernel(
    launch: Launch, ran: Mapping[str, OpInstance], fused: set[tuple[str, bool]], *, backward: bool
) -> Kernel:
    phase: Phase = "backward" if backward else "forward"
    paths = {piece.path for piece in launch.pieces}
    parts = {path: op.op.parts(*op.inputs) for path, op in ran.items() if path in paths}
    # an operation without costs, such as a view, does not make the kernel its own
    costing = [path for path, costs in parts.items() if costs] or list(parts)
    # of no operation: a sum of gradients, or a kernel that torch adds
    if not costing:
        key = OpKey("", "sums" if backward else phase, launch.name)
        return Kernel(key, OpClass.ELEMENTWISE if backward else FRAMEWORK, (), launch.library)

    def class_in_kernel(piece: GraphOp) -> str:
        if (piece.path, backward) in fused:
            return FUSED
        return class_of(OpKey(piece.path, phase, piece.name), parts[piece.path])

    pieces = dict.fromkeys(
        (piece.path, class_in_kernel(piece)) for piece in launch.pieces if piece.path in costing
    )
    classes = {op_class for _, op_class in pieces}
    op_class = classes.pop() if len(classes) == 1 else FUSED_KERNELS
    if launch.library and is_product(launch.name):
        op_class = OpClass.CONTRACTION
    elif is_fused(launch.name):
        op_class = FUSED
    return Kernel(OpKey(JOIN.join(costing), phase, launch.name), op_class, tuple(pieces), launch.library)


def _charged_groups(kernels: Iterable[Kernel]) -> dict[CostKey, KernelGroup]:
    """The kernels that costs are charged to, by operation, phase and class; class "" is any other class."""
    charged_groups: dict[CostKey, KernelGroup] = {}
    # library kernels first, such as matrix products: they do most of an operation's work. The sort is stable,
    # and keeps the order in which kernels run
    for kernel in sorted(kernels, key=lambda kernel: not kernel.library):
        for path, _ in kernel.pieces:
            charged_groups.setdefault(
                (path, kernel.key.phase, ""), KernelGroup(kernel.key.path, kernel.op_class)
            )
    for kernel in kernels:
        for path, op_class in kernel.pieces:
            charged_groups.setdefault(
                (path, kernel.key.phase, op_class), KernelGroup(kernel.key.path, kernel.op_class)
            )
    return charged_groups
