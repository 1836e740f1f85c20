"""Decide which ranges of a trace are kernels, by torch's registry; a step's time by place.

An operation that the dispatcher decomposes (`CompositeImplicitAutograd`: linear, matmul) is a wrapper, and so
is a view. The outermost other operation is a kernel, with all that runs within it, as in the census of a
described model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

import torch

from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.program import (
    LOADER,
    OPTIMIZER,
    OUTSIDE,
    PREFIX,
    PlacedTime,
    ProgramPhase,
    phase_of,
)
from archcli.wings.running.recording.walk import ENGINE, operation, walk
from archcli.wings.running.runtime.program.compiled import CompiledProgram
from archcli.wings.running.runtime.program.modules import ModuleNames
from archcli.wings.serving.recorded.classes import class_by_name
from archcli.wings.serving.recorded.operations import CallTime, OpKey

OPTIMIZER_RANGES = ("Optimizer.step#", "Optimizer.zero_grad#")
LOADER_RANGES = "enumerate(DataLoader)#"
"""Names of the ranges that torch opens around an optimizer's step and a loader's next batch."""
WITHOUT_WORKERS = f"{LOADER_RANGES}_SingleProcess"
NOT_RUN = ("profiler::", "prim::")
"""Namespaces of ranges that the tracer adds."""


@cache
def is_kernel(name: str) -> bool:
    """Whether a range (`aten::mm`) is an operation that computes or moves data."""
    if "::" not in name or name.startswith(NOT_RUN):
        return False
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return any(_computes(name, schema) for schema in schemas)


def _computes(name: str, schema: torch.FunctionSchema) -> bool:
    """Whether an overload has a kernel of its own and returns more than views of its arguments."""
    # an `out` overload has a kernel even if the operation itself is decomposed
    if schema.overload_name.endswith("out"):
        return False
    overload = f"{name}.{schema.overload_name}" if schema.overload_name else name
    try:
        if torch._C._dispatch_has_kernel_for_dispatch_key(overload, "CompositeImplicitAutograd"):
            return False
    # the dispatcher does not know operations of TorchScript
    except RuntimeError:
        return False
    returns = schema.returns
    return not (
        returns
        and all(result.alias_info is not None and not result.alias_info.is_write for result in returns)
    )


class _KernelKeys(frozenset[str]):
    """The names of a trace's kernels; contains an `OpKey` of any path and phase with such a name."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key.name if isinstance(key, OpKey) else key)


def loads_itself(events: Iterable[Event]) -> bool:
    """Whether a data loader without workers loaded a batch in this process."""
    return any(event.name.startswith(WITHOUT_WORKERS) for event in events)


def placed_times(
    events: Sequence[Event], owner: Callable[[int], str], compiled: Iterable[str] = (), *, device: bool
) -> tuple[dict[OpKey, CallTime], int]:
    """Time and calls of the kernels of a step by label, and nanoseconds in the data loader in all.

    `compiled` are names of kernels that torch's registry does not know.
    """
    known = {operation(event.name) for event in events if is_kernel(event.name)}
    names = _KernelKeys(known.union(compiled))
    ranges = [*_prepared(events, frozenset(known))]
    loading = sum(event.end_ns - event.start_ns for event in ranges if event.name == PREFIX + LOADER)
    return walk(ranges, names, owner, PREFIX, device=device), loading  # type: ignore[arg-type]


def _prepared(events: Sequence[Event], names: frozenset[str]) -> Iterator[Event]:
    """The events; ranges of optimizer and loader become labels, and gradient accumulations get an owner."""
    last: dict[int, int] = {}
    for event in sorted(events, key=lambda event: (event.start_ns, -event.end_ns, event.id)):
        if event.name.startswith(OPTIMIZER_RANGES):
            step = event._replace(name=PREFIX + OPTIMIZER)
            yield from (
                step._replace(start_ns=start, end_ns=end) for start, end in _beside_closures(step, events)
            )
        elif event.name.startswith(LOADER_RANGES):
            yield event._replace(name=PREFIX + LOADER)
        elif event.name.startswith(ENGINE):
            # AccumulateGrad has no sequence number; the engine runs it right after the node of its gradient
            number = event.sequence if event.sequence >= 0 else last.get(event.thread, -1)
            last[event.thread] = number
            yield event._replace(sequence=number)
        elif event.kind == "cpu" and operation(event.name) in names and not is_kernel(event.name):
            # a range of the program (record_function) with the name of a kernel
            yield event._replace(name=f"range {event.name}")
        else:
            yield event


def _beside_closures(step: Event, events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The parts of an optimizer's step outside of closures: all, or the parts after each backward.

    A closure runs a whole pass (LBFGS runs many). It begins with its first module.
    """
    within = [it for it in events if it.thread == step.thread and step.start_ns < it.start_ns < step.end_ns]
    ends = [(it.end_ns, True) for it in within if it.name.startswith(ENGINE)]
    if not ends:
        yield step.start_ns, step.end_ns
        return
    begins = [(it.start_ns, False) for it in within if it.name.startswith(PREFIX)]
    marks = [*sorted(ends + begins), (step.end_ns, False)]
    for (start, is_backward), (end, follows) in pairwise(marks):
        if is_backward and not follows:
            yield start, end


def placed_kernels(
    steps: Iterable[dict[OpKey, CallTime]], names: ModuleNames, compiled: CompiledProgram
) -> tuple[PlacedTime, ...]:
    """The kernels of all traced steps by path, phase, name and class."""
    sums: dict[tuple[str, ProgramPhase, str, str], CallTime] = defaultdict(CallTime)
    for step in steps:
        for key, spent in step.items():
            phase = phase_of(key)
            path = names.path(key.path) or OUTSIDE
            of_kernel = compiled.class_at(key) or class_by_name(key.name)
            place = (path, phase, key.name, of_kernel)
            sums[place] = sums[place].plus(spent.ns, spent.calls)
    return tuple(
        PlacedTime(path, phase, name, op_class, time.ns / 1e9, time.calls)
        for (path, phase, name, op_class), time in sorted(sums.items())
    )
