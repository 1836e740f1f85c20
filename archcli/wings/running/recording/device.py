"""The activity of a device during one traced pass: computing, copying, idle and why. No torch.

Every nanosecond of the pass is one of: `busy`, a kernel or a fill runs; `copy`, only a copy from or to memory
elsewhere runs; `sync`, nothing runs and the CPU waits for the device; `launch`, nothing runs as nothing is
launched yet; `ends`, before the first and after the last activity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from archcli.wings.running.recording.events import TIMED, Event

WAIT_KERNEL = "spin_kernel"
"""The kernel of torch.cuda._sleep (ATen/cuda/Sleep.cu), which runs ahead of the pass and is no part of it."""


class Span(NamedTuple):
    """A time interval."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """Nanoseconds of a pass by device state, and counts of launches.

    busy_ns, copy_ns: computing; copying alone.
    sync_ns, launch_ns, ends_ns: idle, by cause.
    activities, launches: counts.
    waits: calls in which the CPU waited for the device, before the last launch.
    lost: names of launches without a kernel, and of kernels without a launch.
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
        """Nanoseconds of the whole pass."""
        return self.busy_ns + self.copy_ns + self.sync_ns + self.launch_ns + self.ends_ns


def account(events: Sequence[Event]) -> DeviceActivity:
    """The device's activity during the pass in a trace."""
    whole = _pass_of(events)
    waiting = [event for event in events if event.on_device and WAIT_KERNEL in event.name]
    launches, others = _launches(events, whole, {event.id for event in waiting})
    activities = [event for event in events if event.on_device and event.id not in others]
    # the pass begins after the spin kernel, if one ran while the CPU launched ahead
    window = Span(max([whole.start_ns, *(event.end_ns for event in waiting)]), whole.end_ns)
    occupied = _union(activities, window)
    computing = _length(_union((event for event in activities if not event.crosses), window))
    gaps = [Span(before.end_ns, after.start_ns) for before, after in pairwise(occupied)]
    inner = occupied[-1].end_ns - occupied[0].start_ns if occupied else 0
    waiting_spans = _union((event for event in events if event.waits), window)
    synced = _overlap(gaps, waiting_spans)
    return DeviceActivity(
        busy_ns=computing,
        copy_ns=_length(occupied) - computing,
        sync_ns=synced,
        launch_ns=_length(gaps) - synced,
        ends_ns=window.end_ns - window.start_ns - inner,
        activities=len(activities),
        launches=len(launches),
        waits=_waits(events, launches, window),
        lost=tuple(_lost(events, launches, activities)),
    )


def median_activity(accounts: Sequence[DeviceActivity]) -> DeviceActivity | None:
    """The median of each figure over the passes, and `lost` of all passes; None without a pass."""
    if not accounts:
        return None

    def over(figure: Callable[[DeviceActivity], int]) -> int:
        return round(median(map(figure, accounts)))

    return DeviceActivity(
        busy_ns=over(lambda activity: activity.busy_ns),
        copy_ns=over(lambda activity: activity.copy_ns),
        sync_ns=over(lambda activity: activity.sync_ns),
        launch_ns=over(lambda activity: activity.launch_ns),
        ends_ns=over(lambda activity: activity.ends_ns),
        activities=over(lambda activity: activity.activities),
        launches=over(lambda activity: activity.launches),
        waits=over(lambda activity: activity.waits),
        lost=tuple(sorted({name for account in accounts for name in account.lost})),
    )


def launched_ns(events: Iterable[Event]) -> Callable[[Event], int]:
    """A function from a CPU range or call to the device time, in ns, of the kernels that it launched."""
    by_range: dict[int, int] = defaultdict(int)
    by_call: dict[int, int] = defaultdict(int)
    for event in events:
        if event.on_device and event.launched_by:
            by_range[event.launched_by] += event.end_ns - event.start_ns
        elif event.on_device:
            by_call[event.id] += event.end_ns - event.start_ns
    return lambda event: (by_call if event.kind == "call" else by_range).get(event.id, 0)


def _pass_of(events: Sequence[Event]) -> Span:
    """The span of the marked pass; without a mark that of the whole trace."""
    marked = [event for event in events if event.name == TIMED] or events
    return Span(
        min((event.start_ns for event in marked), default=0),
        max((event.end_ns for event in marked), default=0),
    )


def _launches(events: Sequence[Event], whole: Span, ahead: set[int]) -> tuple[dict[int, Event], set[int]]:
    """(launches of the pass by number, numbers of all other launches), without calls nested in a launch."""
    of_pass: dict[int, Event] = {}
    others: set[int] = set(ahead)
    until: dict[int, int] = defaultdict(int)
    launches = [event for event in events if event.launches]
    for event in sorted(launches, key=lambda event: (event.start_ns, -event.end_ns)):
        if event.id in ahead or not whole.start_ns <= event.start_ns < whole.end_ns:
            others.add(event.id)
        # cuLaunchKernel (driver) within cudaLaunchKernel (runtime) is the same launch
        elif event.start_ns >= until[event.thread]:
            of_pass[event.id] = event
            until[event.thread] = event.end_ns
    return of_pass, others


def _waits(events: Iterable[Event], launches: dict[int, Event], window: Span) -> int:
    """Waits of the CPU before the last launch: later ones, as at the end of the pass, delay nothing."""
    last = max((launch.start_ns for launch in launches.values()), default=0)
    return sum(event.waits and window.start_ns <= event.end_ns < last for event in events)


def _lost(events: Iterable[Event], launches: dict[int, Event], activities: Iterable[Event]) -> Iterator[str]:
    """Launches without an activity, by the range they were called in, and activities without a launch."""
    done = {event.id for event in activities}
    names = {event.id: event.name for event in events if event.kind == "cpu"}
    lost: Counter[str] = Counter()
    for number, launch in launches.items():
        if number not in done:
            lost[f"{names.get(launch.launched_by, 'no operation')}: {launch.name} without a kernel"] += 1
    lost.update(f"{event.name} without a launch" for event in activities if event.id not in launches)
    yield from (what if times == 1 else f"{what} x{times}" for what, times in sorted(lost.items()))


def _union(events: Iterable[Event], window: Span) -> list[Span]:
    """The intervals of the window in which at least one event ran, in order."""
    spans: list[Span] = []
    for start, end in sorted(
        (max(event.start_ns, window.start_ns), min(event.end_ns, window.end_ns)) for event in events
    ):
        if start >= end:
            continue
        if spans and start <= spans[-1].end_ns:
            spans[-1] = Span(spans[-1].start_ns, max(end, spans[-1].end_ns))
        else:
            spans.append(Span(start, end))
    return spans


def _length(spans: Iterable[Span]) -> int:
    return sum(span.end_ns - span.start_ns for span in spans)


def _overlap(gaps: Iterable[Span], others: Sequence[Span]) -> int:
    """Nanoseconds in which spans of both sequences run; within a sequence none overlap."""
    pairs = ((gap, span) for gap in gaps for span in others)
    shared = (min(a.end_ns, b.end_ns) - max(a.start_ns, b.start_ns) for a, b in pairs)
    return sum(ns for ns in shared if ns > 0)
