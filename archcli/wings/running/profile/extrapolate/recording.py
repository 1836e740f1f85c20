"""Extrapolate a recording of a large model: time of one layer of each kind * layers + the rest.

A pair of small stacks that differ by one layer gives the time of a kind. Operations: the mean over the layers
of the larger stack. Wall time: the slope, the difference of the two stacks. The two are measured
independently, and the report says where they disagree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from archcli.wings.running.profile.extrapolate.plan import StackPair, StackPlan
from archcli.wings.running.recording.disturbance import worst
from archcli.wings.running.recording.recording import GpuPasses, Recording
from archcli.wings.serving.recorded.operations import OpTime

Recordings = Mapping[str, Recording]
"""Recordings by the name of the stack."""


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Times of one layer of a kind.

    timed: its operations, by their paths below the layer.
    slope_s: its wall time.
    shared: operations of the rotary table, which all layers of the stack share.
    """

    pair: StackPair
    timed: tuple[OpTime, ...]
    slope_s: float
    shared: tuple[OpTime, ...]

    @property
    def operations_s(self) -> float:
        """Seconds of all operations of the layer."""
        return _seconds(self.timed)

    @property
    def shared_s(self) -> float:
        """Seconds of the operations that all layers share."""
        return _seconds(self.shared)

    def by_class(self) -> dict[str, float]:
        """Seconds of the layer's operations by class."""
        seconds: dict[str, float] = defaultdict(float)
        for timed in self.timed:
            seconds[timed.op_class] += timed.seconds
        return dict(seconds)


def layer_times(plan: StackPlan, recordings: Recordings) -> list[LayerTimes]:
    """The times of one layer of each kind."""
    return [_of_pair(pair, recordings[pair.fewer.name], recordings[pair.more.name]) for pair in plan.pairs]


def _of_pair(pair: StackPair, fewer: Recording, more: Recording) -> LayerTimes:
    shared = tuple(timed for timed in more.timed if timed.path == pair.kind.rotary(0))
    slope = median(more.plain_s) - median(fewer.plain_s)
    if not pair.n_layers:
        # a stack without layers has no rotary table: the difference includes the table
        slope -= _seconds(shared)
    return LayerTimes(pair, tuple(_layer_operations(pair, more)), slope, shared)


def _layer_operations(pair: StackPair, recording: Recording) -> Iterator[OpTime]:
    """The operations of one layer, with times averaged over the layers of the stack."""
    prefixes = [f"{pair.kind.layer(i)}." for i in range(pair.n_layers + 1)]
    by_operation: dict[tuple[Any, ...], list[OpTime]] = defaultdict(list)
    for timed in recording.timed:
        prefix = next((prefix for prefix in prefixes if timed.path.startswith(prefix)), None)
        if prefix is not None:
            below = timed._replace(path=timed.path.removeprefix(prefix))
            by_operation[below.path, below.phase, below.name, below.op_class].append(below)
    for same in by_operation.values():
        calls = sum(timed.calls for timed in same) // len(prefixes)
        yield same[0]._replace(seconds=_seconds(same) / len(prefixes), calls=calls)


def _seconds(timed: list[OpTime] | tuple[OpTime, ...]) -> float:
    return sum(operation.seconds for operation in timed)


def extrapolated(plan: StackPlan, recordings: Recordings) -> Recording:
    """The recording of the whole model, extrapolated from those of its stacks."""
    ends, layers = recordings[plan.ends.name], layer_times(plan, recordings)
    # noise may make a slope negative: no model is quicker than its embedding and head
    wall = max(_wall_s(plan, layers, ends), median(ends.plain_s))
    stacks = [recordings[stack.name] for stack in plan.stacks()]
    overhead = sum(sum(stack.traced_s) for stack in stacks) / sum(sum(stack.plain_s) for stack in stacks)
    return replace(
        ends,
        timed=tuple(_operations(plan, recordings, layers)),
        ran=(),
        plain_s=(wall,),
        traced_s=(wall * overhead,),
        framework_s=_linear(plan, recordings, lambda stack: stack.framework_s),
        executed=sum(stack.executed for stack in stacks),
        counted=sum(stack.counted for stack in stacks),
        differing=tuple(_named_by_stack(plan, recordings, lambda stack: stack.differing)),
        rejected=sum(stack.rejected for stack in stacks),
        # a difference of noisy counts may be negative
        page_faults=max(0, round(_linear(plan, recordings, lambda stack: stack.page_faults))),
        system_s=max(0.0, _linear(plan, recordings, lambda stack: stack.system_s)),
        census=(),
        switches_per_s=max(stack.switches_per_s for stack in stacks),
        load=max(stack.load for stack in stacks),
        partial=any(stack.partial for stack in stacks),
        trace=None,
        stacks=tuple(stack.name for stack in plan.stacks()),
        reached=dict(_reached_experts(plan, recordings)),
        gpu=_gpu_passes(plan, recordings),
        disturbance=worst(stack.disturbance for stack in stacks),
    )


def _gpu_passes(plan: StackPlan, recordings: Recordings) -> GpuPasses | None:
    """GPU passes of an extrapolation: lost events alone; device times are not extrapolated."""
    ends = recordings[plan.ends.name].gpu
    lost = tuple(_named_by_stack(plan, recordings, lambda stack: stack.lost))
    return ends and GpuPasses(lost=lost, hidden=ends.hidden, states=ends.states)


def _named_by_stack(
    plan: StackPlan, recordings: Recordings, names: Callable[[Recording], tuple[str, ...]]
) -> Iterator[str]:
    for stack in plan.stacks():
        yield from (f"{stack.name}: {name}" for name in names(recordings[stack.name]))


def _operations(plan: StackPlan, recordings: Recordings, layers: list[LayerTimes]) -> Iterator[OpTime]:
    """Every operation of the whole model: those outside of layers, then those of each kind."""
    in_layers = tuple(f"{times.pair.kind.stem}{part}." for times in layers for part in ("layers", "rotary"))
    for timed in recordings[plan.ends.name].timed:
        if timed.path and not timed.path.startswith(in_layers):
            yield timed
    for key, timed in _outside_of_rows(plan, recordings).items():
        yield timed._replace(seconds=_linear(plan, recordings, _seconds_of(key)))
    for times in layers:
        yield from _repeated(times)


def _repeated(times: LayerTimes) -> Iterator[OpTime]:
    """The operations of a kind at every counted layer, times the layers that it represents."""
    kind = times.pair.kind
    for index, n_layers in kind.places:
        yield from (timed._replace(path=kind.rotary(index)) for timed in times.shared)
        for timed in times.timed:
            yield timed._replace(
                path=f"{kind.layer(index)}.{timed.path}",
                seconds=timed.seconds * n_layers,
                calls=timed.calls * n_layers,
            )


def _reached_experts(plan: StackPlan, recordings: Recordings) -> Iterator[tuple[str, int]]:
    """(path, experts reached) at counted layers, as measured in the larger stack's first layer."""
    for pair in plan.pairs:
        prefix, reached = f"{pair.kind.layer(0)}.", recordings[pair.more.name].reached
        first = {path.removeprefix(prefix): n for path, n in reached.items() if path.startswith(prefix)}
        for index, _ in pair.kind.places:
            yield from ((f"{pair.kind.layer(index)}.{path}", n) for path, n in first.items())


def _outside_of_rows(plan: StackPlan, recordings: Recordings) -> dict[tuple[str, str], OpTime]:
    """Torch operations outside of any row, by phase and name, of all stacks."""
    timed = (timed for stack in plan.stacks() for timed in recordings[stack.name].timed)
    return {(operation.phase, operation.name): operation for operation in timed if not operation.path}


def _seconds_of(key: tuple[str, str]) -> Callable[[Recording], float]:
    """Seconds that a torch operation outside of any row took, by phase and name."""

    def seconds(recording: Recording) -> float:
        outside = (timed for timed in recording.timed if not timed.path)
        return sum(timed.seconds for timed in outside if (timed.phase, timed.name) == key)

    return seconds


def _wall_s(plan: StackPlan, layers: list[LayerTimes], ends: Recording) -> float:
    """The wall time of embedding and head, and of all layers and rotary tables that did not run with them."""
    wall = median(ends.plain_s)
    for times in layers:
        kind = times.pair.kind
        held = int(kind.path in plan.held)
        wall += (kind.count - held) * times.slope_s + (len(kind.places) - held) * times.shared_s
    return wall


def _linear(plan: StackPlan, recordings: Recordings, value: Callable[[Recording], float]) -> float:
    """The linear extrapolation: value of embedding and head, plus that of one layer times the layers."""
    total = value(recordings[plan.ends.name])
    for pair in plan.pairs:
        further = pair.kind.count - int(pair.kind.path in plan.held)
        total += further * (value(recordings[pair.more.name]) - value(recordings[pair.fewer.name]))
    return total
