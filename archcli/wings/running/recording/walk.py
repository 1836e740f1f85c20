"""The walk through a trace: from nested ranges to time and calls per path; calls of compiled graphs.

A labelled range opens an operation of the architecture; one of the autograd engine opens the backward of the
operation that made its node. Within either, the first range whose name the census knows takes its whole
duration and whatever ran inside it; the rest (Python, the dispatcher, views) is left to the framework.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from archcli.wings.running.recording.device import launched_ns
from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.kernels import Kernel
from archcli.wings.serving.recorded.operations import REPLICAS, CallTime, OpKey, Phase

ENGINE = "autograd::engine::evaluate_function"
SHARDING = "FSDP::"
"""The start of the ranges in which FSDP2 gathers weights and scatters gradients."""
ALIASES = {"_index_put_impl": "index_put"}
"""The gradient of indexing is `_index_put_impl` in a trace, and `index_put` in the census."""


class _Frame(NamedTuple):
    """An open range of the walk: its end, its operation, and the key that its time counts for."""

    end_ns: int
    path: str
    phase: Phase
    taken: OpKey | None = None
    engine: bool = False


def walk(
    events: Sequence[Event],
    known: Collection[OpKey],
    owner: Callable[[int], str],
    prefix: str,
    *,
    device: bool = False,
) -> dict[OpKey, CallTime]:
    """Time and calls of every known operation of one pass.

    `owner` gives the path that made the autograd node of a sequence number. On a `device` an operation's time
    is that of the kernels, copies and fills it launched.
    """
    spent: dict[OpKey, CallTime] = defaultdict(CallTime)
    threads: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if not event.on_device:
            threads[event.thread].append(event)
    launched = launched_ns(events) if device else None
    for ranges in threads.values():
        if any(event.name.startswith((prefix, ENGINE)) for event in ranges):
            _walk_thread(ranges, known, owner, prefix, launched, spent)
    return dict(spent)


def _walk_thread(
    ranges: list[Event],
    known: Collection[OpKey],
    owner: Callable[[int], str],
    prefix: str,
    launched: Callable[[Event], int] | None,
    spent: dict[OpKey, CallTime],
) -> None:
    # of ranges that begin together the outer one first; of equal ones that with the lower number
    ranges.sort(key=lambda event: (event.start_ns, -event.end_ns, event.id))
    wrappers = _wrappers(ranges)
    stack = [_Frame(ranges[-1].end_ns, "", "forward")]
    for i, event in enumerate(ranges):
        # the first frame is that of no operation and stays, whatever its end
        while len(stack) > 1 and stack[-1].end_ns <= event.start_ns:
            stack.pop()
        inner = _entered(stack[-1], event, () if i in wrappers else known, owner, prefix)
        if inner.taken is not None:
            first = stack[-1].taken is None
            # on a CPU the outer range has all the time; on a device each has what it launched itself
            ns = (event.end_ns - event.start_ns) * first if launched is None else launched(event)
            spent[inner.taken] = spent[inner.taken].plus(ns, int(first))
        stack.append(inner)


def _wrappers(ranges: list[Event]) -> set[int]:
    """Indices of composite operations: ranges that contain another range of the same name."""
    wrappers: set[int] = set()
    stack: list[tuple[int, Event]] = []
    for i, event in enumerate(ranges):
        while stack and stack[-1][1].end_ns <= event.start_ns:
            stack.pop()
        wrappers.update(place for place, outer in stack if outer.name == event.name)
        stack.append((i, event))
    return wrappers


def _entered(
    outer: _Frame, event: Event, known: Collection[OpKey], owner: Callable[[int], str], prefix: str
) -> _Frame:
    """The frame of an event nested in frame `outer`."""
    if outer.taken is not None:
        return outer._replace(end_ns=event.end_ns)
    if event.name.startswith(prefix):
        # a forward that is computed again within a backward is part of it
        return _Frame(event.end_ns, event.name[len(prefix) :], outer.phase)
    if event.name.startswith(SHARDING):
        return _Frame(event.end_ns, REPLICAS, "forward")
    if event.name.startswith(ENGINE):
        return _Frame(event.end_ns, owner(event.sequence), "backward", engine=True)
    key = OpKey(outer.path, outer.phase, operation(event.name))
    if key in known:
        # the engine adds gradients right in its own range; a node adds within the range of its function
        taken = key._replace(phase="sums") if outer.engine and key.name == "add" else key
        return outer._replace(end_ns=event.end_ns, taken=taken)
    # torch::autograd::AccumulateGrad lies between the engine's range and its addition
    return outer._replace(end_ns=event.end_ns, engine=outer.engine and "::AccumulateGrad" in event.name)


def operation(name: str) -> str:
    """A torch operation's name without namespace and in-place underscore, as the dispatcher has it."""
    plain = name.rpartition("::")[2].rstrip("_")
    return ALIASES.get(plain, plain)


CALL = "## Call CompiledFxGraph"
"""The range of a compiled graph in a trace."""
IDLE = frozenset(
    {
        *("empty", "empty_strided", "empty_like", "as_strided", "detach", "alias"),
        *("view", "reshape", "expand", "permute", "slice", "select"),
    }
)
"""Operations between the kernels of a compiled graph that only allocate or view."""


def walk_compiled(events: Iterable[Event], graphs: Sequence[Sequence[Kernel]]) -> dict[OpKey, CallTime]:
    """Time and calls of every kernel of one pass; other events within a graph have an empty path."""
    spent: dict[OpKey, CallTime] = defaultdict(CallTime)
    for event, kernel in launched(events, graphs):
        key = OpKey("", "forward", operation(event.name)) if kernel is None else kernel.key
        spent[key] = spent[key].plus(event.end_ns - event.start_ns, 1)
    return dict(spent)


def with_groups(events: Sequence[Event], graphs: Sequence[Sequence[Kernel]], prefix: str) -> list[Event]:
    """The trace with a range around each kernel, named after the operations that it holds."""
    around = [
        # -1 sorts the range before the kernel with the same times, so that it is the outer one
        event._replace(name=prefix + kernel.key.path, id=-1)
        for event, kernel in launched(events, graphs)
        if kernel
    ]
    return [*events, *around]


def launched(
    events: Iterable[Event], graphs: Sequence[Sequence[Kernel]]
) -> Iterator[tuple[Event, Kernel | None]]:
    """All events within compiled graphs, each with its kernel, or None."""
    for i, ranges in enumerate(calls(events)):
        kernels = graphs[i] if i < len(graphs) else ()
        names = [operation(event.name) for event in ranges]
        for event, i_kernel in zip(
            ranges, matched(names, [kernel.key.name for kernel in kernels]), strict=True
        ):
            yield event, None if i_kernel is None else kernels[i_kernel]


def calls(events: Iterable[Event]) -> Iterator[list[Event]]:
    """The ranges within each call of a compiled graph, in the order of time."""
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
    """For each name in a trace the index of its expected kernel, in order; None if unexpected."""
    places: list[int | None] = [None] * len(seen)
    known = [i for i, name in enumerate(seen) if name in set(expected)]
    if [seen[i] for i in known] == list(expected):
        for place, i in enumerate(known):
            places[i] = place
        return places
    # autojunk would drop names that are frequent in a long trace, as those of kernels are
    for block in SequenceMatcher(None, seen, expected, autojunk=False).get_matching_blocks():
        places[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    return places
