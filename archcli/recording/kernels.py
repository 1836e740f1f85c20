"""Fused kernels as groups of operations: whose each kernel of the compiled code is, and how long it took. Plain Python, no torch.

A kernel that several operations of the architecture were fused into belongs to all of them, and is never split: its path is theirs,
joined. It has their class where they have one, else a class of its own. What an operation costs stands with the kernel that is first
to run it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from archcli.graph import OpClass
from archcli.recording.classes import FRAMEWORK, FUSED, class_of, is_fused, is_product
from archcli.recording.events import Event
from archcli.recording.walk import Key, Phase, Spent, operation

if TYPE_CHECKING:
    from archcli.runtime.model.op_hooks import Ran
    from archcli.runtime.profile.provenance import Graph, Launch

FUSED_KERNELS = "fused_kernels"
JOIN = " + "
"""Between the paths of a group."""
CALL = "## Call CompiledFxGraph"
"""What a trace calls the range of a compiled graph."""
IDLE = {
    "empty",
    "empty_strided",
    "empty_like",
    "as_strided",
    "detach",
    "alias",
    "view",
    "reshape",
    "expand",
    "permute",
    "slice",
    "select",
}
"""What a compiled graph may run between its kernels: it makes room or looks at a tensor in another way, and computes nothing."""
Place = tuple[str, str, str]
"""(path, phase, class of cost) of what an operation of the architecture does."""


class Home(NamedTuple):
    """The kernels with which something stands: their path, and their class."""

    path: str
    op_class: str


class Kernel(NamedTuple):
    """A launch of the compiled code: its key in a trace, its class, and what of each operation it runs by (path, class)."""

    key: Key
    op_class: str
    pieces: tuple[tuple[str, str], ...]
    library: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compiler made of a model: its graphs' kernels in order, where what operations cost stands, and how long it took to compile.

    No kernel holds what is `shared`, as an equal operation's result was taken for it, and what is `missing`.
    """

    graphs: tuple[tuple[Kernel, ...], ...]
    homes: Mapping[Place, Home]
    shared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0

    def home(self, path: str, phase: str, op_class: str) -> Home | None:
        """Where what an operation does in that class stands: with the kernel of that class, else with a library's, else with any."""
        return self.homes.get((path, phase, op_class)) or self.homes.get((path, phase, ""))

    @property
    def kernels(self) -> list[Kernel]:
        """All launches of a pass."""
        return [kernel for graph in self.graphs for kernel in graph]


def compiled_of(graphs: Sequence[Graph], ran: Mapping[str, Ran], seconds: float = 0.0) -> Compiled:
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
    return Compiled(made, homes, shared, missing, seconds)


def _computes(ran: Ran) -> bool:
    return any(part.flops for part in ran.op.parts(*ran.inputs) if not part.training)


def _content(ran: Ran) -> str:
    """An operation without its name: what two that can share a result have in common."""
    return repr((ran.op, ran.inputs)).replace(f"name={ran.op.name!r}", "")


def _kernel(
    launch: Launch, ran: Mapping[str, Ran], fused: set[tuple[str, bool]], *, backward: bool
) -> Kernel:
    phase: Phase = "backward" if backward else "forward"
    parts = {
        path: ran[path].op.parts(*ran[path].inputs)
        for path in ran
        if any(piece.path == path for piece in launch.pieces)
    }
    costing = [path for path, own in parts.items() if own] or list(parts)
    if not costing:  # of no operation: sums of gradients that meet, or something of torch's own
        key = Key("", "sums" if backward else phase, launch.name)
        return Kernel(key, OpClass.ELEMENTWISE if backward else FRAMEWORK, (), launch.library)
    pieces = dict.fromkeys(
        (
            each.path,
            FUSED
            if (each.path, backward) in fused
            else str(class_of(Key(each.path, phase, each.name), parts[each.path])),
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
    return Kernel(Key(JOIN.join(costing), phase, launch.name), op_class, tuple(pieces), launch.library)


def _homes(kernels: Iterable[Kernel]) -> dict[Place, Home]:
    """The first kernel for each class of what an operation does; for what has none, the first of a library's, else the first."""
    homes: dict[Place, Home] = {}
    for kernel in sorted(
        kernels, key=lambda kernel: not kernel.library
    ):  # stable: each sort stays in the order of running
        for path, _ in kernel.pieces:
            homes.setdefault((path, kernel.key.phase, ""), Home(kernel.key.path, kernel.op_class))
    for kernel in kernels:
        for path, op_class in kernel.pieces:
            homes.setdefault((path, kernel.key.phase, op_class), Home(kernel.key.path, kernel.op_class))
    return homes


def walk_compiled(events: Iterable[Event], graphs: Sequence[Sequence[Kernel]]) -> dict[Key, Spent]:
    """Seconds and calls of every kernel of one pass; what else ran within a graph is of no operation."""
    spent: dict[Key, Spent] = defaultdict(Spent)
    for event, kernel in launched(events, graphs):
        key = Key("", "forward", operation(event.name)) if kernel is None else kernel.key
        spent[key] = spent[key].plus(event.end_ns - event.start_ns, 1)
    return dict(spent)


def with_groups(events: Sequence[Event], graphs: Sequence[Sequence[Kernel]], prefix: str) -> list[Event]:
    """The trace with a range around each kernel that is named after the operations it holds."""
    around = [
        event._replace(name=prefix + kernel.key.path, id=-1)
        for event, kernel in launched(events, graphs)
        if kernel
    ]
    return [*events, *around]


def launched(
    events: Iterable[Event], graphs: Sequence[Sequence[Kernel]]
) -> Iterator[tuple[Event, Kernel | None]]:
    """Everything that compiled graphs ran, with the kernel that it is."""
    for i, ranges in enumerate(calls(events)):
        kernels = graphs[i] if i < len(graphs) else ()
        found = matched([operation(event.name) for event in ranges], [kernel.key.name for kernel in kernels])
        yield from (
            (event, None if place is None else kernels[place])
            for event, place in zip(ranges, found, strict=True)
        )


def calls(events: Iterable[Event]) -> Iterator[list[Event]]:
    """What each compiled graph launched, a list for each call of a graph, in the order of time."""
    ordered = sorted(
        (event for event in events if not event.on_device),
        key=lambda event: (event.start_ns, -event.end_ns, event.id),
    )
    for call in [event for event in ordered if event.name.startswith(CALL)]:
        inside, end = list[Event](), call.start_ns
        for event in ordered:
            within = (
                event is not call
                and event.thread == call.thread
                and end <= event.start_ns
                and event.end_ns <= call.end_ns
            )
            if within:
                inside.append(event)
                end = event.end_ns
        yield inside


def matched(seen: Sequence[str], expected: Sequence[str]) -> list[int | None]:
    """Which of the expected kernels each one seen is, both being in order; None for one that is none of them."""
    places: list[int | None] = [None] * len(seen)
    known = [i for i, name in enumerate(seen) if name in set(expected)]
    if [seen[i] for i in known] == list(expected):
        for place, i in enumerate(known):
            places[i] = place
        return places
    for block in SequenceMatcher(None, seen, expected, autojunk=False).get_matching_blocks():
        places[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    return places
