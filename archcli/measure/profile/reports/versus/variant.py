"""A variant that was counted and timed, and the breakdown of its costs and times."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

from archcli.measure.passes import Pass
from archcli.measure.profile.fold import Breakdown, fold
from archcli.measure.profile.quality import is_reliable
from archcli.measure.profile.schema.versus import Setting
from archcli.modules import Model
from archcli.recording.classes import UNATTRIBUTED
from archcli.recording.kernels import CompiledModel
from archcli.recording.operations import ClassKey, OpTime
from archcli.recording.recording import Recording, Timing


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """A variant: its letter (A is the base), the text of --vs, its counts and times."""

    letter: str
    text: str
    model: Model
    counted: Pass
    dtype: str
    timing: Timing
    changes: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def recording(self) -> Recording:
        return self.timing.recording


class VariantBreakdown(NamedTuple):
    """A variant with its costs and times by class and by operator."""

    variant: MeasuredVariant
    breakdown: Breakdown

    @property
    def unattributed(self) -> float:
        """The share of the plain wall time outside of operations and framework."""
        return self.breakdown.share_of(UNATTRIBUTED)

    @property
    def reliable(self) -> bool:
        return is_reliable(self.variant.recording, self.breakdown)


def broken_down(variant: MeasuredVariant, depth: int) -> VariantBreakdown:
    """Join the costs and times of a variant; paths are folded to `depth` steps (0: all)."""
    folded = fold(variant.model, variant.counted, variant.recording, variant.dtype, depth)
    return VariantBreakdown(variant, folded)


def comparable(
    base: VariantBreakdown, side: VariantBreakdown, depth: int
) -> tuple[VariantBreakdown, VariantBreakdown]:
    """The base and a variant, regrouped so that their lines are comparable.

    Where only one is compiled, the times of the other stand on the lines of its kernels.
    """
    base_code, side_code = base.variant.recording.compiled, side.variant.recording.compiled
    if base_code is None and side_code is not None:
        return _regrouped(base.variant, side_code, depth), side
    if side_code is None and base_code is not None:
        return base, _regrouped(side.variant, base_code, depth)
    return base, side


def _regrouped(variant: MeasuredVariant, compiled: CompiledModel, depth: int) -> VariantBreakdown:
    return broken_down(replace(variant, timing=regrouped(variant.timing, compiled)), depth)


def regrouped(timing: Timing, compiled: CompiledModel) -> Timing:
    """Times of an uncompiled variant, regrouped by a compiled model's kernels."""
    rounds = []
    for places in timing.places:
        seconds: dict[ClassKey, float] = defaultdict(float)
        for key, taken in places.items():
            group = compiled.charged_group(key.path, key.phase, key.op_class)
            seconds[key if group is None else key._replace(**group._asdict())] += taken
        rounds.append(seconds)
    timed = tuple(_in_group(time, compiled) for time in timing.recording.timed)
    recording = replace(timing.recording, timed=timed, compiled=compiled)
    return timing._replace(recording=recording, places=tuple(rounds))


def _in_group(time: OpTime, compiled: CompiledModel) -> OpTime:
    group = compiled.charged_group(time.path, time.phase, time.op_class)
    return time if group is None else replace(time, path=group.path, op_class=group.op_class)
