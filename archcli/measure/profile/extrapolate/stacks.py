"""From small stacks to the whole model: what was measured of one layer, times the number of such layers, and the rest once.

Operators: of a layer, the mean over the layers of the larger stack. Wall time: what one more layer adds, the slope. The two are measured
apart, and where they part the report says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from archcli.measure.profile.extrapolate.plan import Pair, Plan
from archcli.recording.recording import GpuPasses

if TYPE_CHECKING:
    from archcli.recording.operations import OpTime
    from archcli.recording.recording import Recording

Recordings = Mapping[str, "Recording"]
"""By the name of the stack."""


@dataclass(frozen=True, slots=True)
class PerLayer:
    """What one layer of a kind takes: its operations by their paths below the layer, the slope of the wall time, and what is done once."""

    pair: Pair
    timed: tuple[OpTime, ...]
    slope_s: float
    once: tuple[OpTime, ...]

    @property
    def operations_s(self) -> float:
        """Seconds of its operations together."""
        return sum(timed.seconds for timed in self.timed)

    @property
    def once_s(self) -> float:
        """Seconds of what is done once for all of them."""
        return sum(timed.seconds for timed in self.once)

    def by_class(self) -> dict[str, float]:
        """Seconds of its operations by class."""
        found: dict[str, float] = defaultdict(float)
        for timed in self.timed:
            found[timed.op_class] += timed.seconds
        return dict(found)


def extrapolated(plan: Plan, recordings: Recordings) -> Recording:
    """The recording that the whole model would leave, going by those of its stacks."""
    ends, kinds = recordings[plan.ends.name], layers_of(plan, recordings)
    wall = max(
        _wall(plan, kinds, ends), median(ends.plain_s)
    )  # no model is quicker than its embedding and head
    every = [recordings[small.name] for small in plan.stacks()]
    overhead = sum(sum(each.traced_s) for each in every) / sum(sum(each.plain_s) for each in every)
    return replace(
        ends,
        timed=tuple(_timed(plan, recordings, kinds)),
        ran=(),
        plain_s=(wall,),
        traced_s=(wall * overhead,),
        framework_s=_linear(plan, recordings, lambda each: each.framework_s),
        executed=sum(each.executed for each in every),
        counted=sum(each.counted for each in every),
        differing=tuple(
            f"{small.name}: {what}" for small in plan.stacks() for what in recordings[small.name].differing
        ),
        rejected=sum(each.rejected for each in every),
        page_faults=max(0, round(_linear(plan, recordings, lambda each: each.page_faults))),
        system_s=max(0.0, _linear(plan, recordings, lambda each: each.system_s)),
        census=(),
        switches_per_s=max(each.switches_per_s for each in every),
        load=max(each.load for each in every),
        partial=any(each.partial for each in every),
        trace=None,
        stacks=tuple(small.name for small in plan.stacks()),
        reached=dict(_reached(plan, recordings)),
        gpu=_gpu(plan, recordings),
    )


def _gpu(plan: Plan, recordings: Recordings) -> GpuPasses | None:
    """What the traces of the stacks lack; no stack's times on the device are those of the whole model."""
    ends = recordings[plan.ends.name].gpu
    lost = (f"{small.name}: {what}" for small in plan.stacks() for what in recordings[small.name].lost)
    return ends and GpuPasses(lost=tuple(lost), hidden=ends.hidden, states=ends.states)


def layers_of(plan: Plan, recordings: Recordings) -> list[PerLayer]:
    """One layer of each kind."""
    return [_per_layer(pair, recordings[pair.fewer.name], recordings[pair.more.name]) for pair in plan.pairs]


def _per_layer(pair: Pair, fewer: Recording, more: Recording) -> PerLayer:
    once = tuple(each for each in more.timed if each.path == pair.kind.rotary(0))
    slope = median(more.plain_s) - median(fewer.plain_s)
    if not pair.n_layers:
        slope -= sum(each.seconds for each in once)  # against no layer, it is in the difference
    return PerLayer(pair, tuple(_of_a_layer(pair, more)), slope, once)


def _of_a_layer(pair: Pair, recording: Recording) -> Iterator[OpTime]:
    """The operations of a layer, each the mean over the layers of the stack."""
    found: dict[tuple[Any, ...], list[OpTime]] = defaultdict(list)
    starts = [f"{pair.kind.layer(i)}." for i in range(pair.n_layers + 1)]
    for each in recording.timed:
        for start in starts:
            if each.path.startswith(start):
                below = replace(each, path=each.path.removeprefix(start))
                found[below.path, below.phase, below.name, below.op_class].append(below)
    for same in found.values():
        yield replace(
            same[0],
            seconds=sum(each.seconds for each in same) / len(starts),
            calls=sum(each.calls for each in same) // len(starts),
        )


def _timed(plan: Plan, recordings: Recordings, kinds: list[PerLayer]) -> Iterator[OpTime]:
    """Every operation of the whole model: those outside of layers, then those of all layers of a kind where they are counted."""
    ends = recordings[plan.ends.name]
    in_layers = tuple(f"{each.pair.kind.stem}{part}." for each in kinds for part in ("layers", "rotary"))
    for timed in ends.timed:
        if timed.path and not timed.path.startswith(in_layers):
            yield timed
    for key, like in _outside(plan, recordings).items():
        yield replace(like, seconds=_linear(plan, recordings, lambda each, key=key: _seconds(each, key)))  # type: ignore[misc]
    for each in kinds:
        kind = each.pair.kind
        for index, times in kind.places:
            yield from (replace(once, path=kind.rotary(index)) for once in each.once)
            for of in each.timed:
                yield replace(
                    of,
                    path=f"{kind.layer(index)}.{of.path}",
                    seconds=of.seconds * times,
                    calls=of.calls * times,
                )


def _reached(plan: Plan, recordings: Recordings) -> Iterator[tuple[str, int]]:
    """How many experts were reached where layers of a kind are counted: as many as in the first of its stack."""
    for pair in plan.pairs:
        start = f"{pair.kind.layer(0)}."
        of_first = {
            path.removeprefix(start): n
            for path, n in recordings[pair.more.name].reached.items()
            if path.startswith(start)
        }
        for index, _ in pair.kind.places:
            yield from ((f"{pair.kind.layer(index)}.{path}", n) for path, n in of_first.items())


def _outside(plan: Plan, recordings: Recordings) -> dict[tuple[str, str], OpTime]:
    """Operations of torch outside of any of the architecture's, by phase and name, in any stack."""
    every = (timed for small in plan.stacks() for timed in recordings[small.name].timed)
    return {(timed.phase, timed.name): timed for timed in every if not timed.path}


def _seconds(recording: Recording, key: tuple[str, str]) -> float:
    return sum(
        timed.seconds for timed in recording.timed if not timed.path and (timed.phase, timed.name) == key
    )


def _wall(plan: Plan, kinds: list[PerLayer], ends: Recording) -> float:
    """The wall time of the ends, the slopes of all layers that they do not have, and the rotary tables that they do not make."""
    wall = median(ends.plain_s)
    for each in kinds:
        kind, held = each.pair.kind, int(each.pair.kind.path in plan.held)
        wall += (kind.count - held) * each.slope_s + (len(kind.places) - held) * each.once_s
    return wall


def _linear(plan: Plan, recordings: Recordings, value: Callable[[Recording], float]) -> float:
    """What the ends have, and for each layer that they lack what one more layer of its kind adds."""
    total = value(recordings[plan.ends.name])
    for pair in plan.pairs:
        lacking = pair.kind.count - int(pair.kind.path in plan.held)
        total += lacking * (value(recordings[pair.more.name]) - value(recordings[pair.fewer.name]))
    return total
