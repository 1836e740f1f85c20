"""Record passes on one of several ranks, which begin each pass together."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from archcli.wings.running.recording.chrome_trace import chrome_trace
from archcli.wings.running.recording.device import account
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.recording.walk import walk
from archcli.wings.running.runtime.profile.census import Census, take_census
from archcli.wings.running.runtime.profile.clock import Clock, Step, clock_of, run_pass
from archcli.wings.running.runtime.profile.machine import gpu_state, without_garbage_collection
from archcli.wings.running.runtime.profile.record import (
    PAIRS,
    PREFIX,
    Pair,
    Tick,
    Traced,
    recording_of,
    rounds,
    traced_events,
    warm_up,
    with_states,
)
from archcli.wings.running.runtime.profile.work import Work
from archcli.wings.running.runtime.ranks.counting import RankCounting, UnderWay, under_way
from archcli.wings.running.runtime.ranks.group import JoinedRanks
from archcli.wings.serving.recorded.classes import COLLECTIVES, WAIT, communicates
from archcli.wings.serving.recorded.operations import REPLICAS, CallTime, CollectiveTime, OpKey


class ClockOfRanks:
    """A clock with a barrier before each pass."""

    def __init__(self, clock: Clock, group: JoinedRanks) -> None:
        self.clock, self.group = clock, group
        self.on_gpu, self.warm_ups = clock.on_gpu, clock.warm_ups

    def warm_up(self, step: Step) -> None:
        """Run one untimed pass."""
        self.clock.warm_up(step)

    def ready(self) -> None:
        """Wait until the device has finished all earlier work, and the other ranks as well."""
        self.clock.ready()
        self.group.meet()

    def run(self, step: Step) -> tuple[Any, float | None]:
        """One whole pass."""
        return self.clock.run(step)

    def counted(self, host_s: float, device_s: float | None) -> float:
        """Of the host's and the device's time, the one that the clock reports."""
        return self.clock.counted(host_s, device_s)


class TracedOnRank(NamedTuple):
    """A traced pass, and the collectives in it."""

    traced: Traced
    collectives: list[UnderWay]


def record_rank(
    work: Work, group: JoinedRanks, pairs: int | None, tick: Tick, *, trace: str = ""
) -> Recording:
    """Warm up, take the census, and time pairs of plain and traced passes, on all ranks at once.

    pairs: None for as many as rank 0 has time for. No pair is left out as disturbed: a disturbance of one
    rank makes all wait.
    trace: a name, under which the last traced pass is kept.
    """
    clock = ClockOfRanks(clock_of(group.device), group)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    warm_up(work, clock, tick)
    tick("counting operations", 0, 1)
    census = take_census(work.model, work.step, RankCounting)
    before = gpu_state(group.device)
    done, exchanged, kept = list[Pair](), list[list[UnderWay]](), list[dict[str, Any]]()
    with without_garbage_collection():
        for i in _agreed_rounds(group, pairs):
            tick("timing", i, pairs or PAIRS)
            plain = run_pass(work.step, clock)
            traced, collectives = _traced(work, census, clock, trace, kept)
            done.append(Pair(plain, *traced))
            exchanged.append(collectives)
    recording = recording_of(done, census, group.device, chosen=True)
    return replace(
        recording,
        load=load,
        trace=kept[-1] if kept else None,
        gpu=with_states(recording.gpu, before, gpu_state(group.device)),
        collectives=tuple(_collectives(census, exchanged)),
        sent=_sent(census),
    )


def _agreed_rounds(group: JoinedRanks, pairs: int | None) -> Iterator[int]:
    """Number the pairs, as many as rank 0 has time for."""
    numbers = rounds(pairs)
    while True:
        i = next(numbers, None) if group.rank == 0 or pairs is not None else 0
        # rank 0 decides: by their own clocks ranks would stop at different pairs, and others wait for ever
        if not group.shared(i is not None):
            return
        yield i or 0


def _traced(work: Work, census: Census, clock: Clock, name: str, kept: list[dict[str, Any]]) -> TracedOnRank:
    """Trace one pass; the collectives of FSDP2 count only with their exposed time."""
    run, events, log = traced_events(work, clock)
    if name:
        kept[:] = [chrome_trace(events, log.owner, PREFIX, name)]
    spent = walk(events, census.calls, log.owner, PREFIX, device=clock.on_gpu)
    computing = {key.name for key in census.calls if not communicates(key.name)}
    collectives = under_way(events, computing, device=clock.on_gpu)
    # collectives of FSDP2 overlap with compute: only the exposed part is time of the pass
    of_replicas = [key for key in spent if key.path == REPLICAS and communicates(key.name)]
    for key in of_replicas:
        spent[key] = CallTime(0, spent[key].calls)
    if of_replicas:
        exposed = sum(collective.exposed_ns for collective in collectives if not collective.of_row)
        spent[OpKey(REPLICAS, "forward", WAIT)] = CallTime(exposed, 0)
    return TracedOnRank(Traced(run, spent, account(events) if clock.on_gpu else None), collectives)


def _collectives(census: Census, exchanged: list[list[UnderWay]]) -> Iterator[CollectiveTime]:
    """Each kind of collective, of rows and of replicas, with medians of its times over the passes."""
    keys: dict[tuple[str, bool], list[OpKey]] = defaultdict(list)
    for key in census.sent:
        keys[COLLECTIVES[key.name], key.path == REPLICAS].append(key)
    for (kind, of_replicas), of_kind in sorted(keys.items()):
        is_both = (kind, not of_replicas) in keys
        passes = [
            [it for it in of_pass if it.collective == kind and not (is_both and it.of_row == of_replicas)]
            for of_pass in exchanged
        ]
        yield CollectiveTime(
            kind,
            sum(census.calls[key] for key in of_kind),
            sum(census.sent[key] for key in of_kind),
            median(sum(it.ns for it in of_pass) for of_pass in passes) / 1e9,
            median(sum(it.exposed_ns for it in of_pass) for of_pass in passes) / 1e9,
            of_replicas,
        )


def _sent(census: Census) -> dict[str, int]:
    """Bytes sent, by the path of the operation that sends them."""
    by_path = Counter[str]()
    for key, sent in census.sent.items():
        by_path[key.path] += sent
    return dict(by_path)
