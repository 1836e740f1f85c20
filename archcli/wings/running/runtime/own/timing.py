"""Time passes of a user's own module on this CPU, operation by operation, by module.

Plain and timed passes alternate. An operation is timed below autograd, around its kernels alone, so that the
time of the watch itself is in none. The rest of a plain pass is Python and torch's dispatcher.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from torch import nn

from archcli.wings.running.recording.own import ModuleRun, ModuleTimes
from archcli.wings.running.runtime.own.failures import told_of_failures
from archcli.wings.running.runtime.own.formulas import OpCost
from archcli.wings.running.runtime.own.run import OwnCall, as_asked, one_pass, run_module
from archcli.wings.running.runtime.own.values import KnownValues
from archcli.wings.running.runtime.own.watch import ModuleWatch, watching

USUAL_PASSES, MOST_SECONDS = 10, 8.0
"""Passes by default, and the seconds after which no other begins."""
UNCOUNTED = "uncounted"


class Clocked(NamedTuple):
    """A timed operation: its module, stage, class of cost, and seconds."""

    path: str
    stage: str
    op_class: str
    seconds: float


class TimedWatch(ModuleWatch):
    """A watch that also times each operation."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, KnownValues(None))
        self.clocked: list[Clocked] = []
        self._seconds = 0.0

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, and time it."""
        begin = perf_counter()
        out = func(*args, **kwargs)
        self._seconds = perf_counter() - begin
        return out

    def book(self, func: Any, name: str, args: Any, kwargs: Any, out: Any) -> OpCost | None:
        """Book an operation with its seconds."""
        visit, stage = self.place()
        cost = super().book(func, name, args, kwargs, out)
        op_class = UNCOUNTED if cost is None else cost.op_class.value
        self.clocked.append(Clocked(visit.path, stage, op_class, self._seconds))
        return cost


def timed_module(call: OwnCall, passes: int | None = None) -> ModuleRun:
    """Run a module on real tensors, plain and timed passes in turn. Raises ArchError where it cannot run."""
    run = run_module(call)  # counts the rows, and warms up
    plain, timed = _passes(call, passes)
    return replace(run, times=_times(plain, timed))


def _passes(call: OwnCall, passes: int | None) -> tuple[list[float], list[list[Clocked]]]:
    """Seconds of the plain passes, and the timed operations of the passes between them."""
    inputs = (call.args, dict(call.kwargs))
    plain: list[float] = []
    timed: list[list[Clocked]] = []
    start = perf_counter()
    with as_asked(call):
        while len(plain) < (passes or USUAL_PASSES):
            begin = perf_counter()
            one_pass(call, inputs)
            plain.append(perf_counter() - begin)
            watch = TimedWatch(call.module)
            with told_of_failures("cpu", call.described, watch), watching(call.module, watch):
                one_pass(call, inputs)
            timed.append(watch.clocked)
            if passes is None and perf_counter() - start > MOST_SECONDS:
                break
    return plain, timed


def _times(plain: Sequence[float], timed: Sequence[Sequence[Clocked]]) -> ModuleTimes:
    """Medians over passes of the sum of each module and each class."""
    paths = {x.path for clocked in timed for x in clocked}
    by_path = {
        path: (
            median(_sums(clocked, "forward").get(path, 0.0) for clocked in timed),
            median(_sums(clocked, "backward").get(path, 0.0) for clocked in timed),
        )
        for path in paths
    }
    classes = {x.op_class for clocked in timed for x in clocked}
    by_class = {
        name: median(sum(x.seconds for x in clocked if x.op_class == name) for clocked in timed)
        for name in sorted(classes)
    }
    return ModuleTimes(median(plain), len(plain), by_path, by_class)


def _sums(clocked: Sequence[Clocked], stage: str) -> dict[str, float]:
    """Seconds of each module in a stage."""
    sums: dict[str, float] = defaultdict(float)
    for x in clocked:
        if x.stage == stage:
            sums[x.path] += x.seconds
    return sums
