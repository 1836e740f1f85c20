"""Variants timed in turn: their ratios by round of passes, and records to compare them.

A ratio is taken in each round, and shown as median and spread. A slow second slows both passes of a round, so
that ratios scatter less than times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from archcli.measure.passes import Pass, shape_pass
from archcli.modules import GLU, MLP, Model, substitute
from archcli.modules.spec.base import find
from archcli.wings.running.profile.charges import line_of
from archcli.wings.running.profile.fold import Breakdown, Tally, fold
from archcli.wings.running.profile.quality import is_reliable, overhead_ratio
from archcli.wings.running.profile.reports.sections import (
    Section,
    compiled_section,
    device_section,
    group_members,
)
from archcli.wings.running.recording.kernels import CompiledModel
from archcli.wings.running.recording.recording import Recording, Timing
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED
from archcli.wings.serving.recorded.operations import ClassKey, OpTime

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.documents import (
        ComparedClass,
        ComparedFigures,
        ComparedOperator,
        Ratios,
        Setting,
        VariantSummary,
    )
    from archcli.wings.serving.recorded.schema.records import DisturbanceFigures


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """A measured variant.

    letter: A is the base. text: of --vs. counted, timing: its counts and times. changes: to the base.
    """

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
    """A variant with its costs and times by class and by operator, its compiled code, and its GPU."""

    variant: MeasuredVariant
    breakdown: Breakdown
    compiled: Section
    device: Section

    @property
    def unattributed(self) -> float:
        """The share of the plain wall time outside of operations and framework."""
        return self.breakdown.share_of(UNATTRIBUTED)

    @property
    def reliable(self) -> bool:
        return is_reliable(self.variant.recording, self.breakdown)


def broken_down(variant: MeasuredVariant, depth: int) -> VariantBreakdown:
    """Join the costs and times of a variant; paths are folded to `depth` steps (0: all)."""
    counted, recording = variant.counted, variant.recording
    folded = fold(variant.model, counted, recording, variant.dtype, depth)
    compiled, device = compiled_section(counted, recording), device_section(recording, folded.wall_s)
    return VariantBreakdown(variant, folded, compiled, device)


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
    return time if group is None else time._replace(path=group.path, op_class=group.op_class)


NONE: Ratios = {"ratio": None, "ratio_q1": None, "ratio_q3": None, "ratio_min": None, "ratio_max": None}
"""The ratios where there is nothing to divide by."""


def ratios(base: Sequence[float], variant: Sequence[float]) -> Ratios:
    """variant/base of every round; None where either took no time in some round."""
    # the framework's time is a difference, and may be below 0 in a round
    if len(base) != len(variant) or not base or min(base) <= 0 or min(variant) <= 0:
        return NONE
    by_round = [after / before for before, after in zip(base, variant, strict=True)]
    # inclusive: quartiles lie within the ratios seen, also of few rounds; of one round all three are its
    # ratio
    q1, _, q3 = quantiles(by_round, n=4, method="inclusive") if len(by_round) > 1 else 3 * by_round
    return {
        "ratio": median(by_round),
        "ratio_q1": q1,
        "ratio_q3": q3,
        "ratio_min": min(by_round),
        "ratio_max": max(by_round),
    }


def class_seconds(timing: Timing, op_class: str) -> list[float]:
    """Seconds of a class in each round; framework is the traced time outside of operations."""
    if op_class != FRAMEWORK:
        return _sums(timing, lambda key: key.op_class == op_class)
    operations = _sums(timing, lambda key: key.op_class != FRAMEWORK)
    return [traced - seconds for traced, seconds in zip(timing.recording.traced_s, operations, strict=True)]


def operator_seconds(timing: Timing, name: str, depth: int) -> list[float]:
    """Seconds of an operator in each round, by the name of its line."""
    return _sums(timing, lambda key: key.op_class != FRAMEWORK and line_of(key, depth) == name)


def _sums(timing: Timing, chosen: Callable[[ClassKey], bool]) -> list[float]:
    return [sum(seconds for key, seconds in places.items() if chosen(key)) for places in timing.places]


def summary_of(base: VariantBreakdown, side: VariantBreakdown) -> VariantSummary:
    """A variant as a whole, and its ratios to the base."""
    variant, recording, breakdown = side.variant, side.variant.recording, side.breakdown
    matmul, rest = variant.counted.flops()
    whole, base_whole = breakdown.whole, base.breakdown.whole
    params = variant.counted.params()
    return {
        "variant": variant.letter,
        "changed": variant.text,
        "settings": list(variant.changes),
        "params": params,
        "params_ratio": _ratio(params, base.variant.counted.params()),
        "matmul_flops": matmul,
        "other_flops": rest,
        "flops_ratio": _ratio(whole.flops, base_whole.flops),
        "bytes": whole.bytes,
        "bytes_ratio": _ratio(whole.bytes, base_whole.bytes),
        "dtype": variant.dtype,
        "wall_s": breakdown.wall_s,
        **(ratios(base.variant.timing.walls, variant.timing.walls) if side is not base else NONE),
        "attributed_share": breakdown.attributed_share,
        "unattributed_share": side.unattributed,
        "reliable": side.reliable,
        "compiled": side.compiled.figures,
        "overhead_ratio": overhead_ratio(recording),
        "operations_executed": recording.executed,
        "operations_counted": recording.counted,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "device": side.device.figures,
        "disturbance": cast("DisturbanceFigures", recording.disturbance._asdict()),
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
    }


def compared_classes(base: VariantBreakdown, side: VariantBreakdown) -> list[ComparedClass]:
    """A record per class that either has, the slowest first, framework and the unattributed rest last."""
    lines: list[ComparedClass] = []
    for name in dict.fromkeys([*base.breakdown.by_class, *side.breakdown.by_class]):
        before, after = (part.breakdown.by_class.get(name, Tally()) for part in (base, side))
        if any(tally.seconds or tally.bytes for tally in (before, after)):
            spread = _class_ratios(base, side, name)
            figures = _compared(before, after)
            lines.append({"variant": side.variant.letter, "class": name, **figures, **spread})
    return sorted(lines, key=_class_order)


def _class_ratios(base: VariantBreakdown, side: VariantBreakdown, name: str) -> Ratios:
    # what medians of whole passes leave has no value in a single round
    if name == UNATTRIBUTED:
        return NONE
    return ratios(class_seconds(base.variant.timing, name), class_seconds(side.variant.timing, name))


def _class_order(line: ComparedClass) -> tuple[bool, float, float]:
    return line["class"] in {FRAMEWORK, UNATTRIBUTED}, -line["base_seconds"], -line["seconds"]


def compared_operators(base: VariantBreakdown, side: VariantBreakdown, depth: int) -> list[ComparedOperator]:
    """A record per operator or fused group that either has, the largest difference first."""
    lines: list[ComparedOperator] = []
    groups = group_members(base.variant.recording, depth) | group_members(side.variant.recording, depth)
    for name in dict.fromkeys([*base.breakdown.by_operator, *side.breakdown.by_operator]):
        before, after = (part.breakdown.by_operator.get(name, Tally()) for part in (base, side))
        seconds = [operator_seconds(part.variant.timing, name, depth) for part in (base, side)]
        figures, spread = _compared(before, after), ratios(*seconds)
        lines.append({"path": name, "operators": groups.get(name), **figures, **spread})
    return sorted(lines, key=lambda line: -abs(line["difference_s"]))


def _compared(before: Tally, after: Tally) -> ComparedFigures:
    return {
        "base_seconds": before.seconds,
        "seconds": after.seconds,
        "difference_s": after.seconds - before.seconds,
        "base_flops": before.flops,
        "flops": after.flops,
        "flops_ratio": _ratio(after.flops, before.flops),
        "base_bytes": before.bytes,
        "bytes": after.bytes,
        "bytes_ratio": _ratio(after.bytes, before.bytes),
    }


def _ratio(amount: Any, base: Any) -> float | None:
    return amount / base if base else None


LEAST_DIFFERENCE = 0.001
"""A smaller share of the parameters is a norm more or less, and goes without a note."""


def parameter_notes(base: Model, variant: Model) -> Iterator[str]:
    """A note where a variant and the base differ in parameters, with the d_ff that would equal them."""
    wanted, params = _params(base), _params(variant)
    if abs(params - wanted) <= LEAST_DIFFERENCE * wanted:
        return
    width = _equal_width(variant, wanted) if _kept_width(base, variant) else None
    hint = f": d_ff was kept, and d_ff={width} would give as many" if width else ""
    yield f"{params / wanted:.3g} times the parameters{hint}"


def _params(model: Model) -> int:
    return int(shape_pass(model).params())


def _dense_ffns(model: Model) -> dict[str, GLU | MLP]:
    """The dense feed-forward networks by their YAML paths."""
    return dict(find(model, GLU)) | dict(find(model, MLP))


def _kept_width(base: Model, variant: Model) -> bool:
    """Whether a dense feed-forward network changed its kind and kept its width."""
    before, after = _dense_ffns(base), _dense_ffns(variant)
    return any(
        before[path].kind != after[path].kind and before[path].d_ff == after[path].d_ff
        for path in before.keys() & after.keys()
    )


def _equal_width(model: Model, wanted: int) -> int | None:
    """The d_ff, equal in all dense networks, with which the model has `wanted` parameters."""
    # parameters are linear in d_ff, so that two widths tell the slope
    paths = [f"{path}.d_ff" for path in _dense_ffns(model)]
    first, second = (_params(substitute(model, dict.fromkeys(paths, width))) for width in (1, 2))
    width = 1 + round((wanted - first) / (second - first))
    return width if width > 0 else None
