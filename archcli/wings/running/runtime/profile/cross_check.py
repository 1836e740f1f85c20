"""Check a profile by a second method: a clock read before and after each row.

A row's time by the clock includes dispatch and Python, which a profile counts as framework. So the ranges of
the rows in a trace, of the same extent, are summed too, and the shares of the rows are compared. Forward
only, and no operations within a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple

from archcli.graph import Op
from archcli.wings.running.recording.events import events_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.runtime.model.leaves import Assignment
from archcli.wings.running.runtime.model.node import OpHook
from archcli.wings.running.runtime.model.op_log import join, op_hooks
from archcli.wings.running.runtime.profile.clock import clock_of, run_pass, tracing
from archcli.wings.running.runtime.profile.machine import without_garbage_collection
from archcli.wings.running.runtime.profile.record import PAIRS, PREFIX, Pair, Tick, labelled, rounds
from archcli.wings.running.runtime.profile.variants import timed_variant
from archcli.wings.running.runtime.profile.work import Work
from archcli.wings.serving.recorded.operations import CallTime


class RowClock:
    """A clock around every operation: logs (ns, path) at its start and (ns, "") at its end."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []

    def hook_of(self, path: str) -> OpHook:
        """The op hook of a node."""

        def enter(op: Op, _: Sequence[Any], __: Assignment | None) -> AbstractContextManager[None]:
            return self._logged(join(path, op.name))

        return enter

    @contextmanager
    def _logged(self, path: str) -> Iterator[None]:
        """Log the clock before and after the block."""
        self.log.append((perf_counter_ns(), path))
        yield
        self.log.append((perf_counter_ns(), ""))


class RowTimes(NamedTuple):
    """Median time and calls of each row, by path.

    seconds, calls: by the clock.
    clocked_s: wall times of the passes with a clock.
    ranged: seconds by the ranges of a trace.
    """

    seconds: Mapping[str, float]
    calls: Mapping[str, int]
    clocked_s: tuple[float, ...]
    ranged: Mapping[str, float]


class Shares(NamedTuple):
    """The share of rows in the time of all: by the profile, by ranges of a trace, and by the clock."""

    profile: float
    ranges: float
    clock: float


def cross_check(work: Work, pairs: int | None, tick: Tick) -> tuple[Recording, RowTimes]:
    """Run plain, traced and clocked passes in turn; returns the profile and the clock's row times.

    pairs: passes of each; None as many as a profile has.
    """
    profiled = timed_variant(work, "cpu")
    done, walls = list[Pair](), list[float]()
    spent, ranged = list[dict[str, CallTime]](), list[dict[str, CallTime]]()
    with without_garbage_collection():
        for i in rounds(pairs):
            tick("timing in turn", i, pairs or PAIRS)
            done.append(Pair(profiled.plain(), *profiled.traced()))
            clock = RowClock()
            with op_hooks(work.model, clock.hook_of):
                walls.append(profiled.plain().seconds)
            spent.append(self_times(clock.log))
            ranged.append(self_times(_ranges(work)))
    calls = {path: row.calls for path, row in spent[-1].items()}
    return profiled.recording(done), RowTimes(_medians(spent), calls, tuple(walls), _medians(ranged))


def _ranges(work: Work) -> list[tuple[int, str]]:
    """The log of one more traced pass, from the tracer's ranges."""
    clock = clock_of("cpu")
    with labelled(work.model), tracing(clock) as trace:
        run_pass(work.step, clock)
    rows = [event for event in events_of(trace) if event.name.startswith(PREFIX)]
    # sorted, an end (0) comes before a start (1) of the same nanosecond
    log = [(event.start_ns, 1, event.name.removeprefix(PREFIX)) for event in rows] + [
        (event.end_ns, 0, "") for event in rows
    ]
    return [(ns, path) for ns, _, path in sorted(log)]


def _medians(spent: list[dict[str, CallTime]]) -> dict[str, float]:
    """Median seconds by path."""
    return {path: median(row[path].ns for row in spent) / 1e9 for path in spent[-1]}


def self_times(log: Iterable[tuple[int, str]]) -> dict[str, CallTime]:
    """Time and calls by path, from a log of (ns, path) at each start and (ns, "") at each end.

    The time of an inner region does not count for the outer one.
    """
    spent: dict[str, CallTime] = defaultdict(CallTime)
    around: list[str] = []
    before = 0
    for now, path in log:
        if around:
            spent[around[-1]] = spent[around[-1]].plus(now - before)
        if path:
            around.append(path)
            spent[path] = spent[path].plus(0, 1)
        else:
            around.pop()
        before = now
    return dict(spent)


def shares(recording: Recording, regions: RowTimes) -> dict[str, Shares]:
    """Shares of the rows' time by class; rows of several classes form a group of their own.

    Rows that execute nothing, such as views, are left out.
    """
    classes: dict[str, set[str]] = defaultdict(set)
    for timed in recording.timed:
        if timed.path:
            classes[timed.path].add(timed.op_class)
    group = {path: " + ".join(sorted(of_row)) for path, of_row in classes.items()}
    profile: dict[str, float] = defaultdict(float)
    for timed in recording.timed:
        if timed.path:
            profile[group[timed.path]] += timed.seconds
    ranges, clock = (_summed(seconds, group) for seconds in (regions.ranged, regions.seconds))
    return {
        name: Shares(*(times[name] / sum(times.values()) for times in (profile, ranges, clock)))
        for name in profile
    }


def _summed(seconds: Mapping[str, float], group: Mapping[str, str]) -> dict[str, float]:
    """Seconds by group: the sum over its paths."""
    totals: dict[str, float] = defaultdict(float)
    for path, name in group.items():
        totals[name] += seconds[path]
    return totals
