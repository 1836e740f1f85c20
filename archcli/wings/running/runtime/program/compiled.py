"""Compiled graphs of a program: the modules behind each of their kernels.

torch keeps the stack of modules on every node of a graph, on those of a gradient that of its forward. A
kernel that several modules were fused into is placed at the module that holds them all; it is never split.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from torch import fx
from torch.fx.node import map_arg

from archcli.graph import OpClass
from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.kernels import CompiledGraph, Kernel, Launch
from archcli.wings.running.recording.program import OUTSIDE, PREFIX, CountedStep
from archcli.wings.running.recording.walk import calls, operation, with_groups
from archcli.wings.running.runtime.profile.provenance import Provenance, noting
from archcli.wings.running.runtime.program.counting import cost_as_executed, product_dtype
from archcli.wings.running.runtime.program.modules import WRAPPERS
from archcli.wings.serving.recorded.classes import FUSED, FUSED_KERNELS, class_by_name, is_fused, is_product
from archcli.wings.serving.recorded.operations import OpKey

STACK, FORWARD_STACK = "nn_module_stack", "fwd_nn_module_stack"
INDEX = re.compile(r"\._modules\[['\"]?(\w+)['\"]?\]|\[['\"]?(\w+)['\"]?\]")
"""An index in dynamo's name of a module, `L['self'].net[0]` or `._modules['0']`."""


class _Placed(NamedTuple):
    """A module of a graph: its path, its class."""

    path: str
    module: str


@dataclass(slots=True)
class _GraphFlops:
    """FLOPs of the products of a graph, by module and by number format, and names without a formula."""

    by_place: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_dtype: Counter[str] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)

    def add(self, path: str, node: fx.Node) -> None:
        """Add what a node computes, by the shapes that it was traced with."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda it: it.meta.get("val"))
        cost = cost_as_executed(node.target, args, kwargs, node.meta.get("val"))
        name = operation(node.target._schema.name)  # type: ignore[union-attr]
        if cost is None:
            self.uncounted[name] += 1
        elif cost.op_class is OpClass.CONTRACTION:
            self.by_place[path, class_by_name(name)] += int(cost.executed)
            self.by_dtype[product_dtype(args)] += int(cost.executed)


class _CountedProvenance(Provenance):
    """Provenance with the FLOPs of every graph, in the order of `graphs`."""

    def __init__(self, path_of: Callable[[fx.Node], str]) -> None:
        super().__init__(path_of)
        self.flops: list[_GraphFlops] = []
        self._last = _GraphFlops()

    def remember(self, graph: fx.Graph) -> None:
        # called last of a graph right before its kernels are made
        super().remember(graph)
        self._last = _GraphFlops()
        for node in graph.nodes:
            pieces = self.pieces_of(node)
            if pieces and hasattr(node.target, "_schema"):
                self._last.add(pieces[0].path, node)

    def launched(self, name: str, nodes: Iterable[fx.Node], *, library: bool) -> None:
        super().launched(name, nodes, library=library)
        self.flops += [self._last] * (len(self.graphs) - len(self.flops))


class CompiledProgram:
    """The compiled graphs of a program, recorded while inductor makes them."""

    def __init__(self) -> None:
        self.noted = _CountedProvenance(self._path_of)
        self.classes: dict[str, str] = {}
        self._settings = ExitStack()
        self._kernels: dict[OpKey, str] = {}
        self._ran: list[int] = []

    @property
    def graphs(self) -> Sequence[CompiledGraph]:
        """The graphs that were compiled so far, forward or backward."""
        return self.noted.graphs

    def install(self) -> None:
        """Record what inductor compiles from now on; called when the program has it imported."""
        self._settings.enter_context(noting(self.noted))

    def labelled(self, events: list[Event]) -> list[Event]:
        """The events, with each compiled kernel in a range named after its modules."""
        if not self.graphs:
            return events
        graphs = [[_kernel(launch, graph) for launch in graph.launches] for graph in self.graphs]
        for kernel in (kernel for graph in graphs for kernel in graph):
            self._kernels[kernel.key] = kernel.op_class
        self._ran = [_nearest([operation(event.name) for event in call], graphs) for call in calls(events)]
        return with_groups(events, [graphs[i] for i in self._ran], PREFIX)

    def names(self) -> Iterable[str]:
        """The names of the kernels that inductor made."""
        return {key.name for key in self._kernels}

    def class_at(self, key: OpKey) -> str | None:
        """The class of a compiled kernel; None for any other."""
        return self._kernels.get(key)

    def counted(self) -> CountedStep | None:
        """FLOPs of the last traced step by the graphs that ran in it; None where none did."""
        if not self._ran:
            return None
        by_place = Counter[tuple[str, str, str]]()
        by_dtype, uncounted = Counter[str](), Counter[str]()
        for i in self._ran:
            phase = "backward" if self.graphs[i].backward else "forward"
            for (path, op_class), flops in self.noted.flops[i].by_place.items():
                by_place[path or OUTSIDE, phase, op_class] += flops
            by_dtype.update(self.noted.flops[i].by_dtype)
            uncounted.update(self.noted.flops[i].uncounted)
        return CountedStep(sum(by_place.values()), 0, by_place, by_dtype, uncounted)

    def _path_of(self, node: fx.Node) -> str:
        """The path of the innermost module that a node was traced in; of a gradient, that of its forward."""
        stack = node.meta.get(STACK) or node.meta.get(FORWARD_STACK) or {}
        modules = [_Placed(*_named(*entry)) for entry in stack.values()]
        if not modules:
            return ""
        for place in modules:
            self.classes[place.path or place.module] = place.module
        return modules[-1].path or modules[-1].module


def _named(place: str, module: Any) -> tuple[str, str]:
    """Path and class of an entry of a node's stack of modules, `("L['self'].h.0", Block)`."""
    # a class, or its name with that of its Python module
    name = str(module.__qualname__ if hasattr(module, "__qualname__") else module).rpartition(".")[2]
    inner = INDEX.sub(lambda match: f".{match[1] or match[2]}", re.sub(r"^L\[[^\]]*\]", "", place))
    steps = [step for step in inner.split(".") if step and step not in {*WRAPPERS, "_modules"}]
    return ".".join(steps), name


def _kernel(launch: Launch, graph: CompiledGraph) -> Kernel:
    """A launch as a kernel: its class, and the module that holds all its operations."""
    paths = dict.fromkeys(piece.path for piece in launch.pieces if piece.path)
    classes = {class_by_name(piece.name) for piece in launch.pieces}
    op_class = classes.pop() if len(classes) == 1 else FUSED_KERNELS
    if is_fused(launch.name):
        op_class = FUSED
    elif launch.library and is_product(launch.name):
        op_class = class_by_name(launch.name)
    key = OpKey(holder([*paths]), "backward" if graph.backward else "forward", launch.name)
    return Kernel(key, op_class, (), launch.library)


def holder(paths: Sequence[str]) -> str:
    """The path of the innermost module that holds all others; of the whole graph where none does."""
    common = [*paths[:1]] if len(paths) == 1 else _common([path.split(".") for path in paths])
    return ".".join(common) or (
        OUTSIDE if not paths else " + ".join(sorted({p.split(".")[0] for p in paths}))
    )


def _common(paths: list[list[str]]) -> list[str]:
    steps = []
    for step in zip(*paths, strict=False):
        if len(set(step)) > 1:
            break
        steps.append(step[0])
    return steps


def _nearest(names: Sequence[str], graphs: Sequence[Sequence[Kernel]]) -> int:
    """The index of the graph with the kernels of a call, else with most of them."""
    seen = Counter(names)

    def shared(i: int) -> float:
        kernels = [kernel.key.name for kernel in graphs[i]]
        # how many are the same, whatever their order, before the slower comparison in order
        common = sum((seen & Counter(kernels)).values())
        return common and SequenceMatcher(None, names, kernels, autojunk=False).ratio()

    return max(range(len(graphs)), key=shared)
