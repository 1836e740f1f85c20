"""Records of a comparison: each variant, with classes and operators compared to the base."""

from __future__ import annotations

from typing import Any

from archcli.measure.profile.fold import Tally
from archcli.measure.profile.quality import overhead_ratio
from archcli.measure.profile.reports.compiled import compiled_figures, group_members
from archcli.measure.profile.reports.disturbance import disturbance_figures
from archcli.measure.profile.reports.gpu import device_figures
from archcli.measure.profile.reports.versus.ratios import NONE, class_seconds, operator_seconds, ratios
from archcli.measure.profile.reports.versus.variant import VariantBreakdown
from archcli.measure.profile.schema.versus import (
    ComparedClass,
    ComparedFigures,
    ComparedOperator,
    Ratios,
    VariantSummary,
)
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED


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
        "compiled": compiled_figures(recording.compiled),
        "overhead_ratio": overhead_ratio(recording),
        "operations_executed": recording.executed,
        "operations_counted": recording.counted,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "device": device_figures(recording, breakdown.wall_s),
        "disturbance": disturbance_figures(recording.disturbance),
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
