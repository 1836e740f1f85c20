"""Notes of a comparison: warnings, and explanations of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archcli.measure.profile.quality import MOST_UNATTRIBUTED, is_disturbed
from archcli.measure.profile.reports.compiled import compiled_notes
from archcli.measure.profile.reports.gpu import device_notes
from archcli.measure.profile.reports.versus.variant import MeasuredVariant, VariantBreakdown
from archcli.measure.profile.warnings import MOST_NAMED, device_warnings, disturbance_warning
from archcli.recording.classes import FUSED

SURE = 4
"""The fewest rounds of which quartiles say something."""


def notes_of(sides: Sequence[VariantBreakdown]) -> Iterator[str]:
    """All notes on a comparison of variants, of which the first is the base."""
    base, *variants = (side.variant for side in sides)
    rounds = len(base.timing.walls)
    if base.recording.partial:
        yield f"PARTIAL: interrupted after {rounds} rounds of passes."
    yield from _warnings(sides)
    if rounds < SURE:
        yield f"{rounds} rounds are few: quartiles of so few ratios say little."
    yield from _differences(base, variants)
    for variant in (base, *variants):
        yield from (f"{variant.letter}: {note}" for note in _variant_notes(variant))
    yield from device_notes(base.recording)
    yield "A ratio whose quartiles lie on both sides of 1 is no difference that was seen."
    yield "Weights are random."


def _warnings(sides: Sequence[VariantBreakdown]) -> Iterator[str]:
    for side in sides:
        letter, recording = side.variant.letter, side.variant.recording
        if recording.differing:
            names = ", ".join(recording.differing[:MOST_NAMED])
            yield f"NOT RELIABLE: {letter}'s trace differs from what was expected in {names}."
        elif abs(side.unattributed) > MOST_UNATTRIBUTED:
            yield (
                f"NOT RELIABLE: {letter}'s plain and traced passes differ by {side.unattributed:.0%} of the "
                "plain wall time; repeat it."
            )
        if is_disturbed(recording):
            yield f"{letter}: {disturbance_warning(recording)}"
        yield from (f"{letter}: {warning}" for warning in device_warnings(recording))


def _differences(base: MeasuredVariant, variants: Sequence[MeasuredVariant]) -> Iterator[str]:
    """Notes on variants whose lines are not directly comparable to the base's."""
    for variant in variants:
        if _is_fused(variant) != _is_fused(base):
            yield (
                f"{variant.letter} and A differ in whether attention is one fused kernel: "
                "compare the operators, not the classes."
            )
    for variant in variants:
        eager, compiled = sorted((base, variant), key=lambda side: side.recording.compiled is not None)
        if eager.recording.compiled is None and compiled.recording.compiled is not None:
            yield (
                f"{eager.letter} runs operation by operation: its times stand on the lines of "
                f"{compiled.letter}'s kernels, and in their classes."
            )


def _is_fused(variant: MeasuredVariant) -> bool:
    return any(timed.op_class == FUSED for timed in variant.recording.timed)


def _variant_notes(variant: MeasuredVariant) -> Iterator[str]:
    yield from compiled_notes(variant.counted, variant.recording)
    for change in variant.changes:
        yield f"{change['setting']} {change['from']} -> {change['to']}"
    yield from variant.notes
