"""What a device did during one traced pass: computing, copying, idle and why; and whether the trace has all of it. Plain Python, no torch.

Every nanosecond of the pass is one of: `busy`, some kernel or fill runs; `copy`, nothing but a copy from or to other memory does;
`sync`, nothing runs and the CPU stands in a call that waits for the device; `launch`, nothing runs as the CPU has not come to launch
it; `ends`, nothing runs yet or any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from archcli.recording.events import TIMED, Event

WAIT_KERNEL = "spin_kernel"
"""What torch.cuda._sleep launches, as ATen/cuda/Sleep.cu names it; it is ahead of the pass and no part of it."""


class Span(NamedTuple):
    """A stretch of time."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Nanoseconds of a pass by what the device did; `activities` it did, `launches` asked for them, the `lost` have no counterpart.

    `waits` are calls within the pass, before its last launch, in which the CPU waited for the device.
    """

    busy_ns: int
    copy_ns: int
    sync_ns: int
    launch_ns: int
    ends_ns: int
    activities: int
    launches: int
    waits: int = 0
    lost: tuple[str, ...] = ()

    @property
    def wall_ns(self) -> int:
        """All of it."""
        return self.busy_ns + self.copy_ns + self.sync_ns + self.launch_ns + self.ends_ns


def account(events: Sequence[Event]) -> OnDevice:
    """The account of the pass that the trace is of."""
    whole = _pass_of(events)
    waiting = [event for event in events if event.on_device and WAIT_KERNEL in event.name]
    launches, others = _launches(events, whole, {event.id for event in waiting})
    ours = [event for event in events if event.on_device and event.id not in others]
    window = Span(max([whole.start_ns, *(event.end_ns for event in waiting)]), whole.end_ns)
    occupied = _union(ours, window)
    computing = _length(_union((event for event in ours if not event.crosses), window))
    gaps = [Span(before.end_ns, after.start_ns) for before, after in pairwise(occupied)]
    inner = occupied[-1].end_ns - occupied[0].start_ns if occupied else 0
    standing = _union((event for event in events if event.waits), window)
    synced = _overlap(gaps, standing)
    return OnDevice(
        busy_ns=computing,
        copy_ns=_length(occupied) - computing,
        sync_ns=synced,
        launch_ns=_length(gaps) - synced,
        ends_ns=window.end_ns - window.start_ns - inner,
        activities=len(ours),
        launches=len(launches),
        waits=_waits(events, launches, window),
        lost=tuple(_lost(events, launches, ours)),
    )


def middle(accounts: Sequence[OnDevice]) -> OnDevice | None:
    """The medians over passes, each on its own, and whatever any of them lost; None of none."""
    if not accounts:
        return None

    def over(figure: Callable[[OnDevice], int]) -> int:
        return round(median(figure(each) for each in accounts))

    return OnDevice(
        busy_ns=over(lambda each: each.busy_ns),
        copy_ns=over(lambda each: each.copy_ns),
        sync_ns=over(lambda each: each.sync_ns),
        launch_ns=over(lambda each: each.launch_ns),
        ends_ns=over(lambda each: each.ends_ns),
        activities=over(lambda each: each.activities),
        launches=over(lambda each: each.launches),
        waits=over(lambda each: each.waits),
        lost=tuple(sorted({what for each in accounts for what in each.lost})),
    )


def launched_ns(events: Iterable[Event]) -> Callable[[Event], int]:
    """How long what an event launched itself ran on the device: of a range on the CPU, or of a call that no such range is known of."""
    by_range: dict[int, int] = defaultdict(int)
    by_call: dict[int, int] = defaultdict(int)
    for event in events:
        if event.on_device and event.launched_by:
            by_range[event.launched_by] += event.end_ns - event.start_ns
        elif event.on_device:
            by_call[event.id] += event.end_ns - event.start_ns
    return lambda event: (by_call if event.kind == "call" else by_range).get(event.id, 0)


def _pass_of(events: Sequence[Event]) -> Span:
    """From the start of the pass to its end; all there is where it was not marked."""
    marked = [event for event in events if event.name == TIMED] or events
    return Span(
        min((event.start_ns for event in marked), default=0),
        max((event.end_ns for event in marked), default=0),
    )


def _launches(events: Sequence[Event], whole: Span, ahead: set[int]) -> tuple[dict[int, Event], set[int]]:
    """(launches of the pass by their numbers, numbers of all other launches). A call within a launch is how that one is done."""
    ours: dict[int, Event] = {}
    others: set[int] = set(ahead)
    until: dict[int, int] = defaultdict(int)
    for event in sorted(
        (event for event in events if event.launches), key=lambda event: (event.start_ns, -event.end_ns)
    ):
        if event.id in ahead or not whole.start_ns <= event.start_ns < whole.end_ns:
            others.add(event.id)
        elif event.start_ns >= until[event.thread]:
            ours[event.id] = event
            until[event.thread] = event.end_ns
    return ours, others


def _waits(events: Iterable[Event], launches: dict[int, Event], window: Span) -> int:
    last = max((launch.start_ns for launch in launches.values()), default=0)
    return sum(event.waits and window.start_ns <= event.end_ns < last for event in events)


def _lost(events: Iterable[Event], launches: dict[int, Event], ours: Iterable[Event]) -> Iterator[str]:
    """Launches that nothing on the device answers, by the range they were called in, and the other way round, with how many."""
    done = {event.id: event for event in ours}
    names = {event.id: event.name for event in events if event.kind == "cpu"}
    found: Counter[str] = Counter()
    for number, launch in launches.items():
        if number not in done:
            found[f"{names.get(launch.launched_by, 'no operation')}: {launch.name} without a kernel"] += 1
    found.update(f"{event.name} without a launch" for event in ours if event.id not in launches)
    yield from (what if times == 1 else f"{what} x{times}" for what, times in sorted(found.items()))


def _union(events: Iterable[Event], window: Span) -> list[Span]:
    """The stretches within the window in which at least one of them ran, in order."""
    found: list[Span] = []
    for start, end in sorted(
        (max(event.start_ns, window.start_ns), min(event.end_ns, window.end_ns)) for event in events
    ):
        if start >= end:
            continue
        if found and start <= found[-1].end_ns:
            found[-1] = Span(found[-1].start_ns, max(end, found[-1].end_ns))
        else:
            found.append(Span(start, end))
    return found


def _length(spans: Iterable[Span]) -> int:
    return sum(span.end_ns - span.start_ns for span in spans)


def _overlap(gaps: Iterable[Span], others: Sequence[Span]) -> int:
    """How long stretches of both run at once; neither overlap among themselves."""
    shared = (
        (max(gap.start_ns, other.start_ns), min(gap.end_ns, other.end_ns)) for gap in gaps for other in others
    )
    return sum(end - start for start, end in shared if end > start)
