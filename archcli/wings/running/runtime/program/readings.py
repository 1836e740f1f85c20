"""Readings of a step while it runs: its FLOPs, its wall time, or a trace of its kernels."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch.autograd import profiler

from archcli.wings.running.recording.device import DeviceActivity, account
from archcli.wings.running.recording.disturbance import processor_times
from archcli.wings.running.recording.events import TIMED, Event, events_of
from archcli.wings.running.recording.program import CountedStep
from archcli.wings.running.runtime.profile.clock import Run
from archcli.wings.running.runtime.profile.machine import quiet_tracer
from archcli.wings.running.runtime.program.compiled import CompiledProgram
from archcli.wings.running.runtime.program.counting import StepCounting
from archcli.wings.running.runtime.program.kernels import loads_itself, placed_times
from archcli.wings.running.runtime.program.modules import ModuleRanges
from archcli.wings.serving.recorded.operations import CallTime, OpKey


class StepReading(Protocol):
    """One way to measure a step."""

    def begin(self) -> None:
        """Begin with a step."""

    def end(self) -> None:
        """End with the step, and keep the measurement."""

    def drop(self) -> None:
        """End within the step, and keep nothing."""

    def leave_child(self) -> None:
        """End in a forked child, which must not touch the parent's tracer."""


class StepCounter:
    """FLOPs of a step, and the tokens of its batch."""

    def __init__(self, modules: ModuleRanges) -> None:
        self.step: CountedStep | None = None
        self.tokens: tuple[int, int] | None = None
        self._modules = modules
        self._counting: Any = None

    def begin(self) -> None:
        """Count from here on."""
        self._counting = StepCounting(self._modules)
        self._counting.begin()

    def end(self) -> None:
        """Keep the counts."""
        self.drop()
        self.step, self.tokens = self._counting.step, self._counting.tokens

    def drop(self) -> None:
        """Count no longer."""
        self._counting.end()

    leave_child = drop


class StepClock:
    """Wall times of steps, with the page faults, context switches and system time during each."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._begun: Any = None

    def begin(self) -> None:
        """Start the clock, when the GPU is idle."""
        _wait_for_gpu()
        self._begun = processor_times(), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()

    def end(self) -> None:
        """Keep the time since the begin."""
        self.runs.append(self.read())

    def read(self) -> Run:
        """The time since the begin, when the GPU is idle."""
        _wait_for_gpu()
        times, before, start = self._begun
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        return Run(
            seconds,
            after.ru_minflt - before.ru_minflt,
            after.ru_nivcsw - before.ru_nivcsw,
            after.ru_stime - before.ru_stime,
            times=processor_times().since(times),
        )

    def drop(self) -> None:
        """Nothing to end: a clock that is not read changes nothing."""

    def leave_child(self) -> None:
        """Nothing to end."""


class TracedStep(NamedTuple):
    """A traced step.

    kernels: time and calls by label.
    loading_ns: time within the data loader.
    loads_itself: whether this process loaded batches, without workers.
    activity: how busy the GPU was; None on a CPU.
    """

    run: Run
    kernels: dict[OpKey, CallTime]
    loading_ns: int
    loads_itself: bool
    activity: DeviceActivity | None


class StepTracer(StepClock):
    """Traces of steps by torch's profiler, each kernel labelled with its module."""

    def __init__(self, modules: ModuleRanges, compiled: CompiledProgram) -> None:
        super().__init__()
        self.steps: list[TracedStep] = []
        self.profiler: Any = None
        self.restore: Callable[[], None] = lambda: None
        self._modules, self._compiled = modules, compiled
        self._mark: Any = None
        self._starting = False

    def begin(self) -> None:
        """Start torch's profiler, label modules, then start the clock."""
        device, self._starting = "cuda" if on_gpu() else None, True
        with quiet_tracer():
            if not self.steps:
                # the first start of the profiler is slow: it loads Kineto, and CUPTI for a GPU
                with profiler.profile(use_kineto=True, use_device=device):
                    _wait_for_gpu()
            self.profiler = profiler.profile(use_kineto=True, use_device=device)
            self.profiler.__enter__()
        self._starting = False
        # new hooks on compiled modules would recompile them
        self._modules.start(hooked=not self._compiled.graphs)
        self._mark = torch._C._profiler._RecordFunctionFast(TIMED)
        self._mark.__enter__()
        super().begin()

    def end(self) -> None:
        """Keep the time and the kernels of the step."""
        run, trace = self.read(), self.profiler
        self._stop()
        events: list[Event] = [event for event in events_of(trace) if event.name != TIMED]
        on_device = any(event.on_device for event in events)
        activity = account([*events_of(trace)]) if on_device else None
        events = self._compiled.labelled(events)
        owner = self._modules.log.autograd.owner
        kernels, loading_ns = placed_times(events, owner, self._compiled.names(), device=on_device)
        self.steps.append(TracedStep(run, kernels, loading_ns, loads_itself(events), activity))

    def drop(self) -> None:
        """Stop the profiler where it has started."""
        if self.profiler is not None:
            self._stop()

    def leave_child(self) -> None:
        """End the labels; the profiler is the parent's."""
        self._modules.end()

    def make_way(self, leave: Callable[[], None]) -> None:
        """Call `leave` before the program starts a profiler of its own; `restore` undoes this."""
        prepare = profiler.profile._prepare_trace

        def leave_first(trace: Any) -> Any:
            if not self._starting:
                leave()
            return prepare(trace)

        profiler.profile._prepare_trace = leave_first  # type: ignore[method-assign]
        self.restore = lambda: setattr(profiler.profile, "_prepare_trace", prepare)

    def _stop(self) -> None:
        self._mark.__exit__(None, None, None)
        self._modules.end()
        trace, self.profiler = self.profiler, None
        with quiet_tracer():
            trace.__exit__(None, None, None)


def on_gpu() -> bool:
    """Whether the program uses a GPU."""
    # is_initialized: asking for a device would make a context that the program does not want
    return torch.cuda.is_initialized()


def _wait_for_gpu() -> None:
    if on_gpu():
        torch.cuda.synchronize()
