"""Record a pass: plain and traced passes in turn, ranges by operation, then medians and sums.

Plain passes have no instrumentation and say how long the pass takes; traced ones say what shares its time.
Their difference is reported, never scaled away. Medians come before sums: single passes vary by ten points,
their per-operation medians by a third of one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.graph import Op
from archcli.wings.running.recording.chrome_trace import chrome_trace
from archcli.wings.running.recording.device import DeviceActivity, account, median_activity
from archcli.wings.running.recording.disturbance import disturbance
from archcli.wings.running.recording.events import Event, events_of
from archcli.wings.running.recording.recording import GpuPasses, Recording
from archcli.wings.running.recording.walk import walk
from archcli.wings.running.runtime.model.leaves import Assignment
from archcli.wings.running.runtime.model.node import OpHook
from archcli.wings.running.runtime.model.op_log import AutogradLog, join, op_hooks
from archcli.wings.running.runtime.profile.census import Census, take_census
from archcli.wings.running.runtime.profile.clock import Clock, Run, clock_of, run_pass, tracing
from archcli.wings.running.runtime.profile.machine import (
    gpu_state,
    machine,
    quiet_tracer,
    without_garbage_collection,
)
from archcli.wings.running.runtime.profile.work import Work
from archcli.wings.serving.recorded.classes import (
    COMMUNICATION,
    FRAMEWORK,
    FUSED,
    RANDOM,
    class_of,
    communicates,
)
from archcli.wings.serving.recorded.machine import usable_processors
from archcli.wings.serving.recorded.operations import CallTime, ExecutedOp, OpKey, OpTime

PREFIX = "archcli:"
"""Prefix of archcli's labels in a trace, which torch's ranges lack."""


class _LoggedRange:
    """A labelled range of the trace that also records its start and end in the log."""

    __slots__ = ("log", "path", "range")

    def __init__(self, log: AutogradLog, path: str) -> None:
        self.log, self.path = log, path
        # not record_function, which calls the dispatcher twice: that would add to the timed pass
        self.range = torch._C._profiler._RecordFunctionFast(PREFIX + path)

    def __enter__(self) -> None:
        self.log.begin(self.path)
        self.range.__enter__()

    def __exit__(self, *exception: object) -> None:
        self.range.__exit__(*exception)
        self.log.end()


@contextmanager
def labelled(model: nn.Module) -> Iterator[AutogradLog]:
    """Label every operation of the model; yields the log of the autograd nodes they make."""
    log = AutogradLog()

    def hook_of(path: str) -> OpHook:
        def label(op: Op, _: Sequence[Any], __: Assignment | None) -> AbstractContextManager[Any]:
            if torch.is_grad_enabled():
                return _LoggedRange(log, join(path, op.name))
            unlogged: AbstractContextManager[Any] = torch._C._profiler._RecordFunctionFast(
                PREFIX + join(path, op.name)
            )
            return unlogged

        return label

    with op_hooks(model, hook_of):
        yield log


PAIRS, FEWEST_PAIRS, BUDGET_S = 10, 3, 8.0
"""Default pairs of passes, the fewest, and the seconds after which no more begin."""
Tick = Callable[[str, int, int], None]
"""A progress callback: (activity, done, total)."""


class Traced(NamedTuple):
    """A traced pass: its time, the time of its operations, and the device's activity."""

    run: Run
    spent: dict[OpKey, CallTime]
    on_device: DeviceActivity | None = None


class Pair(NamedTuple):
    """A plain and a traced pass, with the trace's times and device activity."""

    plain: Run
    traced: Run
    spent: dict[OpKey, CallTime]
    on_device: DeviceActivity | None = None


def record(
    work: Work,
    device: str,
    pairs: int | None,
    tick: Tick,
    *,
    trace: str = "",
    hide_launch: bool = False,
    most: int = PAIRS,
) -> Recording:
    """Warm up, take the census, time `pairs` of plain and traced passes; None times `most`, fewer if slow.

    An interrupt after the first pair returns the recording so far, as partial.
    trace: a name, under which the last traced pass is kept.
    hide_launch: on a GPU, put a waiting kernel in front of each pass.
    """
    # read the load first: the passes add to it
    clock, load = clock_of(device, hide_launch=hide_launch), os.getloadavg()[0] / (os.cpu_count() or 1)
    warm_up(work, clock, tick)
    tick("counting operations", 0, 1)
    census = take_census(work.model, work.step)
    before = gpu_state(device)
    done: list[Pair] = []
    kept: list[dict[str, Any]] = []
    interrupted = False
    with without_garbage_collection():
        try:
            for i in rounds(pairs, most=most):
                tick("timing", i, pairs or most)
                done.append(Pair(run_pass(work.step, clock), *traced_pass(work, census, clock, trace, kept)))
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    recording = recording_of(done, census, device)
    return replace(
        recording,
        partial=interrupted,
        load=load,
        trace=kept[-1] if kept else None,
        gpu=with_states(recording.gpu, before, gpu_state(device)),
    )


def with_states(
    passes: GpuPasses | None, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> GpuPasses | None:
    """The GPU passes with the card's state before and after."""
    return passes and replace(passes, states=tuple(state for state in (before, after) if state))


def no_progress(what: str, done: int, total: int) -> None:
    """A progress callback that prints nothing."""


def warm_up(work: Work, clock: Clock, tick: Tick = no_progress) -> None:
    """Run untimed passes, under the tracer, whose first start is slow."""
    with quiet_tracer(), tracing(clock):
        for i in range(clock.warm_ups):
            tick("warming up", i, clock.warm_ups)
            clock.warm_up(work.step)


def rounds(pairs: int | None, budget_s: float = BUDGET_S, most: int = PAIRS) -> Iterator[int]:
    """Number the pairs to time: `pairs`, else up to `most` within the time budget."""
    if pairs is not None:
        yield from range(pairs)
        return
    start = time.perf_counter()
    for i in range(most):
        # stop before a pair that would exceed the budget; i > 0, as FEWEST_PAIRS is
        if i >= FEWEST_PAIRS and (time.perf_counter() - start) * (i + 1) / i > budget_s:
            return
        yield i


def traced_events(work: Work, clock: Clock) -> tuple[Run, list[Event], AutogradLog]:
    """Trace one pass with labelled operations: its time, events, and owners of autograd nodes."""
    with labelled(work.model) as log, tracing(clock) as trace:
        run = run_pass(work.step, clock)
    return run, list(events_of(trace)), log


def traced_pass(work: Work, census: Census, clock: Clock, name: str, kept: list[dict[str, Any]]) -> Traced:
    """Trace one pass with labelled operations; with a `name` the trace is stored in `kept`."""
    run, events, log = traced_events(work, clock)
    if name:
        kept[:] = [chrome_trace(events, log.owner, PREFIX, name)]
    spent = walk(events, census.calls, log.owner, PREFIX, device=clock.on_gpu)
    return Traced(run, spent, account(events) if clock.on_gpu else None)


def recording_of(done: list[Pair], census: Census, device: str, *, chosen: bool = False) -> Recording:
    """The recording of the undisturbed pairs, or of all pairs if they are already `chosen`."""
    quiet = [pair for pair in done if not (pair.plain.disturbed or pair.traced.disturbed)]
    kept = quiet if len(quiet) >= FEWEST_PAIRS and not chosen else done
    counted = [_counts(pair.spent) for pair in kept]
    framework = [pair.traced.seconds - sum(time.ns for time in pair.spent.values()) / 1e9 for pair in kept]
    return Recording(
        timed=_timed(kept, census),
        ran=census.ran,
        plain_s=tuple(pair.plain.seconds for pair in kept),
        traced_s=tuple(pair.traced.seconds for pair in kept),
        framework_s=median(framework),
        executed=sum(census.calls.values()),
        counted=min(sum(counts.values()) for counts in counted),
        differing=_differing(counted, census),
        rejected=len(done) - len(kept),
        page_faults=int(median(pair.plain.faults for pair in kept)),
        switches_per_s=sum(pair.plain.switches for pair in kept) / sum(pair.plain.lasted_s for pair in kept),
        machine=machine(device),
        census=tuple(_executed(kept, census)),
        system_s=median(pair.plain.system_s for pair in kept),
        reached=census.reached,
        gpu=_gpu_passes(kept),
        disturbance=disturbance(
            [pair.plain.times for pair in kept],
            [pair.plain.seconds for pair in kept],
            len(usable_processors()),
        ),
    )


def _gpu_passes(kept: list[Pair]) -> GpuPasses | None:
    """Device times and activity of the GPU passes; None for passes on a CPU."""
    on_device = median_activity([pair.on_device for pair in kept if pair.on_device is not None])
    if on_device is None:
        return None
    return GpuPasses(
        on_device,
        on_device.lost,
        host_s=tuple(pair.plain.lasted_s for pair in kept),
        device_s=tuple(pair.plain.device_s for pair in kept if pair.plain.device_s is not None),
        hidden=all(pair.plain.seconds == pair.plain.device_s for pair in kept),
    )


def _differing(counted: list[Counter[OpKey]], census: Census) -> tuple[str, ...]:
    """Operations whose number of calls in some trace differs from the census."""
    pairs = ((counts, key) for counts in counted for key in census.calls)
    names = {f"{key.path}:{key.name}" for counts, key in pairs if counts[key] != census.calls[key]}
    return tuple(sorted(names))


def _executed(kept: list[Pair], census: Census) -> Iterator[ExecutedOp]:
    """The census by time class; additions that are sums of gradients in the trace are element-wise."""
    class_at = _classes(census)
    # only a trace distinguishes sums of gradients from other additions
    sums = {(key.path, key.name) for key in kept[0].spent if key.phase == "sums"}
    for key, calls in sorted(census.calls.items()):
        place = (
            key._replace(phase="sums") if key.phase == "backward" and (key.path, key.name) in sums else key
        )
        yield ExecutedOp(*place, class_at(place), calls, *census.executed[key])


def _classes(census: Census) -> Callable[[OpKey], str]:
    """A function from a torch operation's key to its time class."""
    ran = {op.path: op for op in census.ran}

    def class_at(key: OpKey) -> str:
        op = ran.get(key.path)
        if op is None and communicates(key.name):
            return COMMUNICATION
        return FRAMEWORK if op is None else class_of(key, op.op.parts(*op.inputs))

    return class_at


def _timed(kept: list[Pair], census: Census) -> tuple[OpTime, ...]:
    """The median time and class of every torch operation over the passes.

    Where attention ran fused, whatever else its row executed (making the mask) is of the kernel's class.
    """
    class_at = _classes(census)
    timed = []
    for key in sorted({key for pair in kept for key in pair.spent}):
        times = [pair.spent.get(key, CallTime()) for pair in kept]
        seconds = median(time.ns for time in times) / 1e9
        timed.append(OpTime(*key, class_at(key), seconds, times[-1].calls))
    fused = {op.path for op in timed if op.op_class == FUSED}
    return tuple(
        op._replace(op_class=FUSED) if op.path in fused and _joins_kernel(op) else op for op in timed
    )


def _joins_kernel(timed: OpTime) -> bool:
    return timed.phase != "sums" and timed.op_class != RANDOM


def _counts(spent: dict[OpKey, CallTime]) -> Counter[OpKey]:
    """Calls in a trace by the keys of the census, which has gradient sums among other additions."""
    counts: Counter[OpKey] = Counter()
    for key, of_key in spent.items():
        counts[key._replace(phase="backward") if key.phase == "sums" else key] += of_key.calls
    return counts
