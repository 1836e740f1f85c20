"""A model under torch.compile: compiled with the provenance of its kernels, then timed as any other.

Afterwards the compiler's settings, its pools of workers and the environment are as before. Kernels made by
the C++ compiler stay in torch's cache (TORCHINDUCTOR_CACHE_DIR, else the system's temporary folder): a second
run is quicker.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from archcli.errors import ArchError
from archcli.wings.running.recording.chrome_trace import chrome_trace
from archcli.wings.running.recording.events import events_of
from archcli.wings.running.recording.kernels import CompiledModel, join_kernels
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.recording.walk import IDLE, walk_compiled, with_groups
from archcli.wings.running.runtime.model.op_log import set_op_hooks
from archcli.wings.running.runtime.profile.census import Census, Executed, take_census
from archcli.wings.running.runtime.profile.clock import clock_of, run_pass, tracing
from archcli.wings.running.runtime.profile.provenance import annotated, provenance
from archcli.wings.running.runtime.profile.record import PREFIX, Pair, Tick, Traced, recording_of, warm_up
from archcli.wings.running.runtime.profile.variants import TimedVariant, record_variants
from archcli.wings.running.runtime.profile.work import Work
from archcli.wings.serving.recorded.classes import FRAMEWORK
from archcli.wings.serving.recorded.operations import OpInstance, OpKey

# those for which torch/_inductor/codegen/cpp.py writes a profiler's range into a kernel
PLATFORMS = ("linux", "win32")
"""Where inductor can name its kernels in a trace."""


def check_compiler(device: str) -> None:
    """Raises ArchError where a model cannot be compiled, or its kernels not be identified."""
    if device != "cpu":
        raise ArchError(
            f"compiled kernels are told apart on a CPU alone, not on {device}",
            "leave --compile out, or --device",
        )
    if sys.platform not in PLATFORMS or not hasattr(torch.fx.traceback, "annotate"):
        raise ArchError(
            f"torch {torch.__version__} on {sys.platform} cannot tell compiled kernels apart",
            "torch 2.9 on Linux can",
        )
    # inductor takes seconds to import: an uncompiled profile does without
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        hint = (
            "install g++, so that `g++ --version` answers, or name another such as clang++ "
            "in the environment variable CXX"
        )
        raise ArchError("--compile needs a C++ compiler, and there is none", hint) from None


def record_compiled(work: Work, device: str, pairs: int | None, tick: Tick, *, trace: str = "") -> Recording:
    """Compile a model and time its passes. Raises ArchError where torch cannot compile it."""
    kept: list[dict[str, Any]] = []
    [timing] = record_variants([timed_compiled_variant(work, device, tick, trace, kept)], pairs, tick)
    return replace(timing.recording, trace=kept[-1] if kept else None)


def timed_compiled_variant(
    work: Work, device: str, tick: Tick, trace: str = "", kept: list[dict[str, Any]] | None = None
) -> TimedVariant:
    """A variant whose operations torch fuses, warmed up. The model is compiled in place."""
    check_compiler(device)
    tick("counting operations", 0, 1)
    census, clock = take_census(work.model, work.step), clock_of(device)
    tick("compiling", 0, 1)
    compiled, step = compile_work(work, {op.path: op for op in census.ran})
    warm_up(work, clock, tick)

    def traced() -> Traced:
        with tracing(clock) as trace_events:
            run = run_pass(step, clock)
        events = list(events_of(trace_events))
        if kept is not None and trace:
            kept[:] = [
                chrome_trace(with_groups(events, compiled.graphs, PREFIX), lambda _: "", PREFIX, trace)
            ]
        return Traced(run, walk_compiled(events, compiled.graphs))

    return TimedVariant(
        lambda: run_pass(step, clock), traced, lambda pairs: _recording(pairs, compiled, census, device)
    )


def compile_work(work: Work, ran: dict[str, OpInstance]) -> tuple[CompiledModel, Callable[[], Any]]:
    """Compile the model; returns its kernels, and a function that runs one pass of it."""
    start = time.perf_counter()
    set_op_hooks(work.model, annotated)
    # no breaks and no symbolic sizes: every kernel of the pass is then known beforehand
    options: dict[str, Any] = {"fullgraph": True, "dynamic": False}
    work.model.compile(**options)
    # Module.compile covers __call__ alone, and passes through a cache enter by `step`
    vars(work.model)["step"] = torch.compile(work.model.step, **options)
    with _without_leftovers(), provenance() as noted:
        try:
            work.step()
        except ArchError:
            raise
        except Exception as problem:
            raise ArchError(
                f"torch.compile cannot take this pass: {reason(problem)}", "leave --compile out"
            ) from problem
    return join_kernels(noted.graphs, ran, time.perf_counter() - start), work.step


def reason(problem: Exception) -> str:
    """The line of a compiler's message that gives the reason: the first C++ error, else the first line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = [line for line in lines if "error: " in line] or [
        line for line in lines if not line.endswith("raised:")
    ]
    return said[0][:200] if said else type(problem).__name__


@contextmanager
def _without_leftovers() -> Iterator[None]:
    """Stop the threads and processes that inductor started, and restore the environment."""
    environment = dict(os.environ)
    from torch._inductor import async_compile

    # what was there before stays: a caller may compile models of its own
    pool = async_compile.AsyncCompile.pool
    threads, processes, watched = (
        pool.cache_info().currsize,
        bool(async_compile._pool_set),
        _progress_watch() is not None,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # the compiler's own code uses what torch has deprecated
            yield
    finally:
        if not threads and pool.cache_info().currsize:
            pool().shutdown()
            pool.cache_clear()
        if not processes:
            async_compile.shutdown_compile_workers()
        if not watched and (watch := _progress_watch()) is not None:
            watch.exit()
            # tqdm starts a new watch where it finds none
            sys.modules["tqdm"].tqdm.monitor = None
        os.environ.clear()
        os.environ.update(environment)


def _progress_watch() -> Any:
    """The thread that watches tqdm's progress bars, which inductor uses where it is installed; else None."""
    package: Any = sys.modules.get("tqdm")
    return package.tqdm.monitor if hasattr(package, "tqdm") else None


def _recording(pairs: list[Pair], compiled: CompiledModel, census: Census, device: str) -> Recording:
    """The recording of a compiled model: kernel launches in place of counted torch operations."""
    keys = [kernel.key for kernel in compiled.kernels]
    launched = Counter(key._replace(phase="backward" if key.phase == "sums" else key.phase) for key in keys)
    recording = recording_of(
        pairs, census._replace(calls=dict(launched), executed=defaultdict(Executed)), device, chosen=True
    )
    classes = {kernel.key: kernel.op_class for kernel in compiled.kernels}
    timed = [
        op._replace(op_class=classes.get(OpKey(op.path, op.phase, op.name), FRAMEWORK))
        for op in recording.timed
    ]
    others = sorted({op.name for op in timed if OpKey(op.path, op.phase, op.name) not in classes} - IDLE)
    unknown = [f"{name}: in no compiled graph" for name in others]
    return replace(
        recording,
        timed=tuple(timed),
        counted=min(_calls(pair, classes) for pair in pairs),
        differing=(*recording.differing, *unknown, *(f"{path}: in no kernel" for path in compiled.missing)),
        census=(),
        compiled=compiled,
    )


def _calls(pair: Pair, known: Collection[OpKey]) -> int:
    """The number of launches of known kernels in the traced pass."""
    return sum(time.calls for key, time in pair.spent.items() if key in known)
