"""Time several variants of an architecture in one process, with interleaved passes.

A round has a plain and a traced pass of each variant; the next round begins with another variant. A slower
machine affects all variants of a round alike, so ratios are taken within rounds.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.wings.running.recording.recording import Recording, Timing
from archcli.wings.running.runtime.profile.census import take_census
from archcli.wings.running.runtime.profile.clock import Run, clock_of, run_pass
from archcli.wings.running.runtime.profile.machine import gpu_state, without_garbage_collection
from archcli.wings.running.runtime.profile.record import (
    BUDGET_S,
    FEWEST_PAIRS,
    PAIRS,
    Pair,
    Tick,
    Traced,
    recording_of,
    rounds,
    traced_pass,
    warm_up,
    with_states,
)
from archcli.wings.running.runtime.profile.work import Work
from archcli.wings.serving.recorded.operations import ClassKey, OpKey


class TimedVariant(NamedTuple):
    """A variant ready to be timed: functions for a plain pass, a traced pass and the recording."""

    plain: Callable[[], Run]
    traced: Callable[[], Traced]
    recording: Callable[[list[Pair]], Recording]
    device: str = "cpu"


def timed_variant(work: Work, device: str, *, hide_launch: bool = False) -> TimedVariant:
    """Prepare an uncompiled variant: warm up and take the census."""
    clock = clock_of(device, hide_launch=hide_launch)
    warm_up(work, clock)
    census = take_census(work.model, work.step)
    return TimedVariant(
        lambda: run_pass(work.step, clock),
        lambda: traced_pass(work, census, clock, "", []),
        lambda pairs: recording_of(pairs, census, device, chosen=True),
        device,
    )


def record_variants(variants: Sequence[TimedVariant], pairs: int | None, tick: Tick) -> list[Timing]:
    """Time `pairs` rounds of all variants; None for as many as fit into the time budget.

    An interrupt after the first whole round returns what there is as partial, before it is raised on.
    """
    load, before = os.getloadavg()[0] / (os.cpu_count() or 1), gpu_state(variants[0].device)
    done: list[list[Pair]] = []
    interrupted = False
    with without_garbage_collection():
        try:
            for i in rounds(pairs, BUDGET_S * len(variants)):
                tick("timing in turn", i, pairs or PAIRS)
                done.append(_round(variants, i))
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    kept, after = _undisturbed(done), gpu_state(variants[0].device)
    all_over: dict[str, Any] = {
        "partial": interrupted,
        "load": load,
        "rejected": len(done) - len(kept),
    }
    timings = [_timing(variant, [pairs[i] for pairs in kept]) for i, variant in enumerate(variants)]
    return [
        timing._replace(
            recording=replace(
                timing.recording, **all_over, gpu=with_states(timing.recording.gpu, before, after)
            )
        )
        for timing in timings
    ]


def _round(variants: Sequence[TimedVariant], number: int) -> list[Pair]:
    """A plain pass of each variant, then a traced one of each; `number` rotates who is first."""
    start = number % len(variants)
    order = [*range(start, len(variants)), *range(start)]
    plain = {i: variants[i].plain() for i in order}
    traced = {i: variants[i].traced() for i in order}
    return [Pair(plain[i], *traced[i]) for i in range(len(variants))]


def _undisturbed(done: list[list[Pair]]) -> list[list[Pair]]:
    """The rounds without a disturbed pass, if there are enough of them, else all."""
    quiet = [
        pairs for pairs in done if not any(pair.plain.disturbed or pair.traced.disturbed for pair in pairs)
    ]
    return quiet if len(quiet) >= FEWEST_PAIRS else done


def _timing(variant: TimedVariant, pairs: list[Pair]) -> Timing:
    recording = variant.recording(pairs)
    classes = {OpKey(timed.path, timed.phase, timed.name): timed.op_class for timed in recording.timed}
    places = []
    for pair in pairs:
        seconds: dict[ClassKey, float] = defaultdict(float)
        for key, spent in pair.spent.items():
            seconds[ClassKey(key.path, key.phase, classes[key])] += spent.ns / 1e9
        places.append(seconds)
    return Timing(recording, tuple(pair.plain.seconds for pair in pairs), tuple(places))
