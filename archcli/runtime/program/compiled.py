"""Compiled graphs of a program: the modules that each of their kernels was made from.

torch keeps the stack of modules on every node of a graph, on those of a gradient that of its forward. A
kernel that several modules were fused into is placed at the module that holds them all; it is never split.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from torch import fx

from archcli.recording.classes import FUSED, FUSED_KERNELS, class_by_name, is_fused, is_product
from archcli.recording.events import Event
from archcli.recording.kernels import CompiledGraph, Kernel, Launch
from archcli.recording.operations import OpKey
from archcli.recording.program import OUTSIDE, PREFIX, CountedStep
from archcli.recording.walk import calls, operation, with_groups
from archcli.runtime.profile.provenance import Provenance, noting
from archcli.runtime.program.modules import WRAPPERS

STACK, FORWARD_STACK = "nn_module_stack", "fwd_nn_module_stack"
INDEX = re.compile(r"\._modules\[['\"]?(\w+)['\"]?\]|\[['\"]?(\w+)['\"]?\]")
"""A step in dynamo's name of a module, `L['self'].net[0]` or `._modules['0']`, that is no attribute."""


class _Placed(NamedTuple):
    """A module of a graph: its path, its class."""

    path: str
    module: str


class CompiledProgram:
    """The compiled graphs of a program, recorded while inductor makes them."""

    def __init__(self) -> None:
        self.noted = Provenance(self._path_of)
        self.classes: dict[str, str] = {}
        self._settings = ExitStack()
        self._kernels: dict[OpKey, str] = {}

    @property
    def graphs(self) -> Sequence[CompiledGraph]:
        """The graphs that were compiled so far, forward or backward."""
        return self.noted.graphs

    def install(self) -> None:
        """Record what inductor compiles from now on; called when the program has it imported."""
        self._settings.enter_context(noting(self.noted))

    def labelled(self, events: list[Event]) -> list[Event]:
        """The events with a range around each kernel of a compiled graph, named after its modules."""
        if not self.graphs:
            return events
        graphs = [[_kernel(launch, graph) for launch in graph.launches] for graph in self.graphs]
        for kernel in (kernel for graph in graphs for kernel in graph):
            self._kernels[kernel.key] = kernel.op_class
        ran = [_nearest([operation(event.name) for event in call], graphs) for call in calls(events)]
        return with_groups(events, ran, PREFIX)

    def names(self) -> Iterable[str]:
        """The names of the kernels that inductor made."""
        return {key.name for key in self._kernels}

    def class_at(self, key: OpKey) -> str | None:
        """The class of a compiled kernel; None for any other."""
        return self._kernels.get(key)

    def counted(self) -> CountedStep | None:
        """FLOPs of a step by its graphs; None where they are not known."""
        return None

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
    name = str(getattr(module, "__qualname__", module)).rpartition(".")[2]
    inner = INDEX.sub(lambda found: f".{found[1] or found[2]}", re.sub(r"^L\[[^\]]*\]", "", place))
    steps = [step for step in inner.split(".") if step and step not in {*WRAPPERS, "_modules"}]
    return ".".join(steps), name


def _kernel(launch: Launch, graph: CompiledGraph) -> Kernel:
    """A launch with the module that holds all that it computes, and its class."""
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


def _nearest(names: Sequence[str], graphs: Sequence[Sequence[Kernel]]) -> Sequence[Kernel]:
    """The graph whose kernels are those of a call, else the one that has most of them in order."""
    seen = Counter(names)

    def shared(graph: Sequence[Kernel]) -> float:
        kernels = [kernel.key.name for kernel in graph]
        # how many are the same, whatever their order, before the slower comparison in order
        common = sum((seen & Counter(kernels)).values())
        return common and SequenceMatcher(None, names, kernels, autojunk=False).ratio()

    return max(graphs, key=shared, default=())
