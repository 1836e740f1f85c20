"""The watch over a running program: some steps left out, one counted, then pairs of plain and traced.

A step lasts from the end of an optimizer's step to the end of its next one, so that it holds the data, all
passes of an accumulation, and whatever else the program does between two updates. Outside of the steps that
are traced one hook of torch's is left, which counts.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd import profiler
from torch.nn.modules import module as all_modules
from torch.optim import optimizer as all_optimizers

from archcli.recording.device import DeviceActivity, account, median_activity
from archcli.recording.disturbance import Disturbance, disturbance, processor_times
from archcli.recording.events import TIMED, Event, events_of
from archcli.recording.machine import usable_processors
from archcli.recording.operations import CallTime, OpKey
from archcli.recording.program import (
    LOADER,
    CountedStep,
    ProgramRecording,
    Watching,
)
from archcli.runtime.profile.clock import Run
from archcli.runtime.profile.machine import machine, quiet_tracer
from archcli.runtime.program.compiled import CompiledProgram
from archcli.runtime.program.counting import StepCounting, by_paths
from archcli.runtime.program.kernels import loads_itself, placed_kernels, placed_times
from archcli.runtime.program.modules import ModuleNames, ModuleRanges
from archcli.runtime.program.steps import Leader, PassHook, ThreadEnd

PATIENCE_S = 1.0
"""Longest wait for another thread at the end of a program."""
TRACES_ITSELF = "the program runs a profiler of its own, and torch has one at a time"


class _Begun(NamedTuple):
    """Readings at the begin of a step."""

    times: Any
    usage: Any
    start: float


class _TracedStep(NamedTuple):
    """A traced step: its time, kernels by label, what its data loader did, the device's activity."""

    run: Run
    spent: dict[OpKey, CallTime]
    loading_ns: int
    loads_itself: bool
    activity: DeviceActivity | None


class Watch:
    """The watch over one program. What goes wrong in it ends the watch, and never the program."""

    def __init__(self, watching: Watching, *, traces: bool = True) -> None:
        self.watching, self.traces = watching, traces
        self.found = 0
        self.failure = ""
        self.modules = ModuleRanges()
        self.compiled = CompiledProgram()
        self.plain: list[Run] = []
        self.traced: list[_TracedStep] = []
        self.counted: CountedStep | None = None
        self.tokens: tuple[int, int] | None = None
        self.optimizers: dict[str, None] = {}
        self._leader = Leader()
        self._left_out = max(watching.warm_up, 1)
        self._names: ModuleNames | None = None
        self._late: Any = None
        self._doing = ""
        self._begun: _Begun | None = None
        self._tracer: Any = None
        self._mark: Any = None
        self._starting = False
        self._restore: Callable[[], None] = lambda: None
        self._counting: Any = None
        self._handles: list[Any] = []
        self._process, self._thread = os.getpid(), 0
        self._thread_end: ThreadEnd | None = None
        self._over: threading.Event | None = None

    def begin(self) -> None:
        """Set the hooks that find steps."""
        if self.watching.step_on == "forward":
            self._handles = [all_modules.register_module_forward_pre_hook(self._passes)]
        else:
            self._handles = [all_optimizers.register_optimizer_step_post_hook(self._stepped)]
        if self.traces:
            self._make_way()
        os.register_at_fork(after_in_child=self._leave_child)

    @property
    def complete(self) -> bool:
        """Whether all steps that were asked for are over: left out, counted, and pairs."""
        return self.found > self._left_out + 2 * self.watching.steps

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        # a compiled step is traced by torch's compiler, which must see nothing of this
        if torch.compiler.is_compiling() or not self._is_here():
            return
        self.optimizers[type(optimizer).__name__] = None
        so_far = self._leader.choose(id(optimizer), too_late=self.complete)
        if so_far:
            self._begin_anew(so_far)
        if id(optimizer) != self._leader.optimizer:
            return
        # where a hook of autograd steps: modes and tracers that begin within a backward end with it
        if not self.complete and torch._C._current_graph_task_id() >= 0:
            self._end_step_later()
        else:
            self._step_ends()

    def _end_step_later(self) -> None:
        """End the step when the next module is called outside of a backward."""

        def called(module: nn.Module, inputs: Any) -> None:
            if self._is_here() and torch._C._current_graph_task_id() < 0:
                self._late.remove()
                self._late = None
                self._step_ends_before(module, inputs)

        # where a program has one, each weight's optimizer may step
        self._late = self._late or all_modules.register_module_forward_pre_hook(called)

    def _begin_anew(self, found: int) -> None:
        """Steps are others than was thought: so many were found, and none was measured."""
        self._drop()
        self.found, self.counted = found, None
        # the step that goes on has begun unseen
        self._left_out = max(self._left_out, found + 1)
        self.plain.clear()
        self.traced.clear()

    def _passes(self, module: nn.Module, inputs: Any) -> None:
        """Find the outermost module, the first that is called, and watch its passes alone."""
        if torch.compiler.is_compiling() or not self._is_here():
            return
        for handle in self._handles:
            handle.remove()
        self._handles = [module.register_forward_pre_hook(PassHook(self._step_ends_before))]
        self._step_ends_before(module, inputs)

    def _step_ends_before(self, module: nn.Module, inputs: Any) -> None:
        """End a step where a module is called, whose other hooks have been asked before."""
        self._step_ends()
        self.modules.called(module, inputs)

    def _is_here(self) -> bool:
        # the thread of the first step: a program may train in one of its own, and go on in another
        if not self._thread:
            self._thread, in_main = threading.get_ident(), threading.main_thread()
            self._thread_end = None if threading.current_thread() is in_main else ThreadEnd(self._thread_ends)
        return os.getpid() == self._process and threading.get_ident() == self._thread

    def _step_ends(self) -> None:
        if not self._is_here() or torch.compiler.is_compiling():
            return
        if self._over is not None:
            self._drop_at_the_end(self._over)
            return
        self.found += 1
        if self.failure:
            return
        try:
            self._end()
            if not self.complete:
                self._start(self._next())
            elif self._names is None:
                self._settle()
        except Exception as problem:  # noqa: BLE001 - the program goes on, whatever is wrong with the watch
            self.give_up(f"{type(problem).__name__}: {problem}")
        if self.complete and self.watching.stop:
            raise SystemExit(0)

    def _next(self) -> str:
        """What is done with the step that begins; ranks of one program do the same at the same steps."""
        number = self.found - self._left_out
        if number < 0 or not self.traces:
            return ""
        # a compiled step is counted by its graphs: under a mode torch would run it uncompiled
        if number == 0:
            return "" if self.compiled.graphs else "count"
        return "plain" if number % 2 else "trace"

    def _start(self, what: str) -> None:
        self._doing = what
        if what == "count":
            self._counting = StepCounting(self.modules)
            self._counting.begin()
            return
        if what == "trace":
            self._start_tracer()
        if what:
            self._ready()
            self._begun = _Begun(
                processor_times(), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            )

    def _end(self) -> None:
        """End what was done with the step that is over."""
        what, self._doing = self._doing, ""
        if what == "count":
            self._counting.end()
            self.counted, self.tokens = self._counting.step, self._counting.tokens
        elif what and self._begun is not None:
            run = self._run(self._begun)
            if what == "plain":
                self.plain.append(run)
            else:
                self.traced.append(self._end_tracer(run))
        if self.modules.failure:
            raise RuntimeError(self.modules.failure)

    def _run(self, begun: _Begun) -> Run:
        self._ready()
        seconds = time.perf_counter() - begun.start
        after, times = resource.getrusage(resource.RUSAGE_SELF), processor_times().since(begun.times)
        return Run(
            seconds,
            after.ru_minflt - begun.usage.ru_minflt,
            after.ru_nivcsw - begun.usage.ru_nivcsw,
            after.ru_stime - begun.usage.ru_stime,
            times=times,
        )

    def _start_tracer(self) -> None:
        on_gpu, self._starting = _on_gpu(), True
        with quiet_tracer():
            if not self.traced:
                # slow when it starts for the first time
                with profiler.profile(use_kineto=True, use_device="cuda" if on_gpu else None):
                    self._ready()
            self._tracer = profiler.profile(use_kineto=True, use_device="cuda" if on_gpu else None)
            self._tracer.__enter__()
        self._starting = False
        # hooks on all modules would have compiled ones compiled anew
        self.modules.start(hooked=not self.compiled.graphs)
        self._mark = torch._C._profiler._RecordFunctionFast(TIMED)
        self._mark.__enter__()

    def _make_way(self) -> None:
        """End the watch where the program prepares a profiler of its own, before that begins."""
        prepare = profiler.profile._prepare_trace

        def make_way(tracer: Any) -> Any:
            if not self._starting:
                self.give_up(TRACES_ITSELF)
            return prepare(tracer)

        profiler.profile._prepare_trace = make_way  # type: ignore[method-assign]
        self._restore = lambda: setattr(profiler.profile, "_prepare_trace", prepare)

    def _end_tracer(self, run: Run) -> _TracedStep:
        self._mark.__exit__(None, None, None)
        self.modules.end()
        tracer, self._tracer = self._tracer, None
        with quiet_tracer():
            tracer.__exit__(None, None, None)
        events: list[Event] = [event for event in events_of(tracer) if event.name != TIMED]
        on_gpu = any(event.on_device for event in events)
        activity = account([*events_of(tracer)]) if on_gpu else None
        events = self.compiled.labelled(events)
        spent, loading = placed_times(
            events, self.modules.log.autograd.owner, self.compiled.names(), device=on_gpu
        )
        return _TracedStep(run, spent, loading, loads_itself(events), activity)

    def _ready(self) -> None:
        if _on_gpu():
            torch.cuda.synchronize()

    def give_up(self, why: str) -> None:
        """End the watch for a reason; what was measured stays."""
        self.failure = self.failure or why
        self.close()

    def _thread_ends(self) -> None:
        """Drop the step that is not over: modes and tracers are of a thread."""
        try:
            self._drop()
        except Exception as problem:  # noqa: BLE001 - the program goes on, whatever is wrong with the watch
            self.failure = self.failure or f"{type(problem).__name__}: {problem}"
        self._thread = 0

    def _let_thread_drop(self) -> None:
        """Wait until a thread that outlives the program drops its step, at its next module or step.

        One that waits itself stays as it is. One that runs on would crash where Python stops it.
        """
        over = self._over = threading.Event()
        handle = all_modules.register_module_forward_pre_hook(lambda *_: self._drop_at_the_end(over))
        over.wait(PATIENCE_S)
        handle.remove()

    def _drop_at_the_end(self, over: threading.Event) -> None:
        if self._is_here():
            self._drop()
            over.set()

    def close(self) -> None:
        """Take every hook, mode and tracer away; a step that is not over is dropped."""
        try:
            # at the end of a program another thread may be within a step
            if threading.get_ident() == self._thread:
                self._drop()
            elif self._doing == "trace":
                self._let_thread_drop()
            self._doing = ""
            self.modules.unhook()
            if self._names is None:
                self._settle()
        except Exception as problem:  # noqa: BLE001 - the program goes on, whatever is wrong with the watch
            self.failure = self.failure or f"{type(problem).__name__}: {problem}"

    def _drop(self) -> None:
        """End what was done with a step that is not over, or does not count."""
        doing, self._doing = self._doing, ""
        if doing == "count":
            self._counting.end()
        elif doing == "trace" and self._tracer is not None:
            self._mark.__exit__(None, None, None)
            self.modules.end()
            with quiet_tracer():
                self._tracer.__exit__(None, None, None)

    def _settle(self) -> None:
        """Nothing more is watched: keep the names of the program's modules, and hold on to none of them."""
        self._restore()
        if self._late is not None:
            self._late.remove()
            self.found += 1
        self._names = ModuleNames(self.modules.roots)
        self.modules.forget()

    def _leave_child(self) -> None:
        """In a forked child, such as a loader's worker, nothing is watched."""
        if self._doing == "count":
            self._counting.end()
        if self._doing == "trace":
            self.modules.end()
        for handle in self._handles:
            handle.remove()
        self._doing = ""

    def recording(self) -> ProgramRecording:
        """All that was measured; called when the program is over."""
        self.close()
        device = "cuda" if _on_gpu() else "cpu"
        names, traced = self._names or ModuleNames([]), self.traced
        placed = placed_kernels((step.spent for step in traced), names, self.compiled)
        loading = sum(step.loading_ns for step in traced) / 1e9
        loaded = sum(it.seconds for it in placed if it.path == LOADER)
        return ProgramRecording(
            found=self.found,
            plain_s=tuple(run.seconds for run in self.plain[: len(traced)]),
            traced_s=tuple(step.run.seconds for step in traced),
            placed=placed,
            waiting_s=max(0.0, loading - loaded),
            loads_itself=any(step.loads_itself for step in traced),
            modules={**self.compiled.classes, **names.classes},
            counted=by_paths(self.counted, names) or self.compiled.counted(),
            tokens=self.tokens,
            optimizers=tuple(self.optimizers),
            graphs=len(self.compiled.graphs),
            device=device,
            activity=median_activity([it.activity for it in traced if it.activity is not None]),
            machine=machine(device),
            disturbance=_disturbance(self.plain),
            complete=self.complete,
            failure=self.failure,
        )


def _on_gpu() -> bool:
    # is_initialized: asking for a device would make a context that the program does not want
    return torch.cuda.is_initialized()


def _disturbance(plain: list[Run]) -> Disturbance:
    if not plain:
        return Disturbance(len(usable_processors()))
    walls = [run.seconds for run in plain]
    return disturbance([run.times for run in plain], walls, len(usable_processors()))
