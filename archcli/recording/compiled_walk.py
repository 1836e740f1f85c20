"""The trace of a compiled model: the kernels that each call of a compiled graph launched. No torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from archcli.recording.events import Event
from archcli.recording.kernels import Kernel
from archcli.recording.operations import CallTime, OpKey
from archcli.recording.walk import operation

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
    for block in SequenceMatcher(None, seen, expected, autojunk=False).get_matching_blocks():
        places[block.a : block.a + block.size] = range(block.b, block.b + block.size)
    return places
