"""Measure a running program: skip some steps, count FLOPs of one, then time and trace in pairs.

A step lasts from the end of an optimizer's step to the end of its next one, so that it holds the data, all
passes of an accumulation, and whatever else the program does between two updates. Outside of the steps that
are traced one hook of torch's is left, which counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as all_modules

from archcli.wings.running.recording.device import median_activity
from archcli.wings.running.recording.disturbance import Disturbance, disturbance
from archcli.wings.running.recording.program import LOADER, ProgramRecording, Watching
from archcli.wings.running.runtime.profile.clock import Run
from archcli.wings.running.runtime.profile.machine import machine
from archcli.wings.running.runtime.program.boundaries import StepHooks, TrainingThread
from archcli.wings.running.runtime.program.compiled import CompiledProgram
from archcli.wings.running.runtime.program.counting import by_paths
from archcli.wings.running.runtime.program.kernels import placed_kernels
from archcli.wings.running.runtime.program.modules import ModuleNames, ModuleRanges
from archcli.wings.running.runtime.program.readings import (
    StepClock,
    StepCounter,
    StepReading,
    StepTracer,
    on_gpu,
)
from archcli.wings.serving.recorded.machine import usable_processors

PATIENCE_S = 1.0
"""Longest wait for another thread at the end of a program."""
TRACES_ITSELF = "the program runs a profiler of its own, and torch has one at a time"


class Watch:
    """The watch over one program. An error in it ends the watch, and never the program.

    traces: whether this process measures; of several ranks only the first does, and all end together.
    steps: those seen so far.
    failure: why the watch ended early; empty if it did not.
    modules, compiled: the program's modules, and its graphs of torch.compile.
    hooks: they find where steps end.
    counter, clock, tracer: the three readings of a step.
    """

    def __init__(self, watching: Watching, *, traces: bool = True) -> None:
        self.watching, self.traces = watching, traces
        self.steps, self.failure = 0, ""
        self.modules, self.compiled = ModuleRanges(), CompiledProgram()
        self._thread = TrainingThread(self._thread_ends)
        self.hooks = StepHooks(self, self._thread)
        self.counter, self.clock = StepCounter(self.modules), StepClock()
        self.tracer = StepTracer(self.modules, self.compiled)
        # at least 1: the first step began before the hooks were set
        self._warm_up = max(watching.warm_up, 1)
        # of the step that runs; None in a step that is not measured
        self._reading: StepReading | None = None
        # None until all steps are over
        self._names: ModuleNames | None = None
        # set when a thread that outlives the program has dropped its step
        self._over: threading.Event | None = None

    def begin(self) -> None:
        """Set the hooks that find steps."""
        self.hooks.begin(self.watching.step_on)
        if self.traces:
            self.tracer.make_way(lambda: self.give_up(TRACES_ITSELF))
        os.register_at_fork(after_in_child=self._leave_child)

    @property
    def complete(self) -> bool:
        """Whether all steps to watch are over: left out, counted, and pairs."""
        return self.steps > self._warm_up + 2 * self.watching.steps

    def begin_anew(self, steps: int) -> None:
        """Drop all measurements: another optimizer turned out to end the steps, `steps` of them so far."""
        self._drop()
        self.steps, self.counter.step = steps, None
        # + 1: the step that runs now began without a reading
        self._warm_up = max(self._warm_up, steps + 1)
        self.clock.runs.clear()
        self.tracer.steps.clear()

    def step_ends_before(self, module: nn.Module, inputs: Any) -> None:
        """End a step at the call of a module; hooks set now miss this call, so pass it on by hand."""
        self.step_ends()
        self.modules.called(module, inputs)

    def step_ends(self) -> None:
        """End a step's reading, and begin that of the next."""
        if not self._thread.is_here() or torch.compiler.is_compiling():
            return
        if self._over is not None:
            self._drop_at_the_end(self._over)
            return
        self.steps += 1
        if self.failure:
            return
        with self._failing():
            self._end()
            if not self.complete:
                self._start()
            elif self._names is None:
                self._settle()
        if self.failure:
            self.close()
        if self.complete and self.watching.stop:
            raise SystemExit(0)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep what goes wrong as the reason why the watch ends."""
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - the program goes on, whatever is wrong with the watch
            self.failure = self.failure or f"{type(problem).__name__}: {problem}"

    def _next(self) -> StepReading | None:
        """The reading of the next step; ranks of one program do the same at the same steps."""
        number = self.steps - self._warm_up
        if number < 0 or not self.traces:
            return None
        # a compiled step is counted by its graphs: torch runs uncompiled under a TorchDispatchMode
        if number == 0:
            return None if self.compiled.graphs else self.counter
        # alternating, so that a machine that becomes slower slows timed and traced steps alike
        return self.clock if number % 2 else self.tracer

    def _start(self) -> None:
        self._reading = self._next()
        if self._reading is not None:
            self._reading.begin()

    def _end(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.end()
        if self.modules.failure:
            raise RuntimeError(self.modules.failure)

    def _drop(self) -> None:
        """End the reading of a step that is not over, or does not count."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.drop()

    def give_up(self, why: str) -> None:
        """End the watch for a reason; what was measured stays."""
        self.failure = self.failure or why
        self.close()

    def _thread_ends(self) -> None:
        """Drop the unfinished step of a thread that ends: dispatch modes and tracers belong to a thread."""
        with self._failing():
            self._drop()

    def _let_thread_drop(self) -> None:
        """Wait until another thread drops its traced step, at its next module or step.

        A thread that is blocked keeps its trace: the wait ends after PATIENCE_S. One that went on with its
        trace would crash when Python shuts down.
        """
        over = self._over = threading.Event()
        handle = all_modules.register_module_forward_pre_hook(lambda *_: self._drop_at_the_end(over))
        over.wait(PATIENCE_S)
        handle.remove()

    def _drop_at_the_end(self, over: threading.Event) -> None:
        if self._thread.is_here():
            self._drop()
            over.set()

    def close(self) -> None:
        """Take every hook, mode and tracer away; a step that is not over is dropped."""
        with self._failing():
            # at the end of a program another thread may be within a step
            if self._thread.is_current():
                self._drop()
            elif self._reading is self.tracer:
                self._let_thread_drop()
            self._reading = None
            self.modules.unhook()
            if self._names is None:
                self._settle()

    def _settle(self) -> None:
        """Keep the names of the program's modules, and no reference to the modules themselves."""
        self.tracer.restore()
        self.steps += self.hooks.settle()
        self._names = ModuleNames(self.modules.roots)
        self.modules.forget()

    def _leave_child(self) -> None:
        """Stop watching in a forked child, such as a worker of a data loader."""
        if self._reading is not None:
            self._reading.leave_child()
        self.hooks.remove()
        self._reading = None

    def recording(self) -> ProgramRecording:
        """All that was measured; called when the program is over."""
        self.close()
        device = "cuda" if on_gpu() else "cpu"
        names, traced, plain = self._names or ModuleNames([]), self.tracer.steps, self.clock.runs
        placed = placed_kernels((step.kernels for step in traced), names, self.compiled)
        loading = sum(step.loading_ns for step in traced) / 1e9
        loaded = sum(it.seconds for it in placed if it.path == LOADER)
        return ProgramRecording(
            steps=self.steps,
            plain_s=tuple(run.seconds for run in plain[: len(traced)]),
            traced_s=tuple(step.run.seconds for step in traced),
            placed=placed,
            waiting_s=max(0.0, loading - loaded),
            loads_itself=any(step.loads_itself for step in traced),
            modules={**self.compiled.classes, **names.classes},
            counted=by_paths(self.counter.step, names) or self.compiled.counted(),
            tokens=self.counter.tokens,
            optimizers=tuple(self.hooks.optimizers),
            graphs=len(self.compiled.graphs),
            device=device,
            activity=median_activity([it.activity for it in traced if it.activity is not None]),
            machine=machine(device),
            disturbance=_disturbance(plain),
            complete=self.complete,
            failure=self.failure,
        )


def _disturbance(plain: list[Run]) -> Disturbance:
    if not plain:
        return Disturbance(len(usable_processors()))
    walls = [run.seconds for run in plain]
    return disturbance([run.times for run in plain], walls, len(usable_processors()))
