"""Times of one layer of each kind, from a pair of small stacks that differ by one layer.

Operations are the mean over the layers of the larger stack. Wall time is the slope: what one more layer adds.
They are measured apart, and where they disagree the report says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from archcli.measure.profile.extrapolate.stacks import StackPair, StackPlan
from archcli.recording.operations import OpTime
from archcli.recording.recording import Recording

Recordings = Mapping[str, Recording]
"""Recordings by the name of the stack."""


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Times of one layer of a kind.

    `timed` are its operations, by their paths below the layer. `slope_s` is its wall time. `shared` are
    operations that all layers of the stack share: a rotary table.
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
        slope -= _seconds(shared)  # a stack without layers has no rotary table: the difference holds it
    return LayerTimes(pair, tuple(_layer_operations(pair, more)), slope, shared)


def _layer_operations(pair: StackPair, recording: Recording) -> Iterator[OpTime]:
    """The operations of one layer, with times averaged over the layers of the stack."""
    prefixes = [f"{pair.kind.layer(i)}." for i in range(pair.n_layers + 1)]
    by_operation: dict[tuple[Any, ...], list[OpTime]] = defaultdict(list)
    for timed in recording.timed:
        prefix = next((prefix for prefix in prefixes if timed.path.startswith(prefix)), None)
        if prefix is not None:
            below = replace(timed, path=timed.path.removeprefix(prefix))
            by_operation[below.path, below.phase, below.name, below.op_class].append(below)
    for same in by_operation.values():
        calls = sum(timed.calls for timed in same) // len(prefixes)
        yield replace(same[0], seconds=_seconds(same) / len(prefixes), calls=calls)


def _seconds(timed: list[OpTime] | tuple[OpTime, ...]) -> float:
    return sum(operation.seconds for operation in timed)
