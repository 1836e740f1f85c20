"""The report of `archcli profile --vs`: its tables and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archcli.measure.report import Column, Fact, Report, Table, facts
from archcli.units import three_figures
from archcli.wings.running.profile.charges import abbreviated
from archcli.wings.running.profile.quality import (
    MOST_NAMED,
    MOST_UNATTRIBUTED,
    device_warnings,
    disturbance_warning,
    fastest_to_slowest,
    is_disturbed,
    overhead_ratio,
)
from archcli.wings.running.profile.reports.one import usual_inputs
from archcli.wings.running.profile.reports.sections import machine_figures
from archcli.wings.running.profile.reports.variants import (
    MeasuredVariant,
    VariantBreakdown,
    broken_down,
    comparable,
    compared_classes,
    compared_operators,
    summary_of,
)
from archcli.wings.serving.recorded.classes import FUSED, label_of

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.documents import ReportedVariant

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
    for side in sides:
        yield from (f"{side.variant.letter}: {note}" for note in _variant_notes(side))
    yield from sides[0].device.notes
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
        # False sorts first: the side that is not compiled
        eager, compiled = sorted((base, variant), key=lambda side: side.recording.compiled is not None)
        if eager.recording.compiled is None and compiled.recording.compiled is not None:
            yield (
                f"{eager.letter} runs operation by operation: its times stand on the lines of "
                f"{compiled.letter}'s kernels, and in their classes."
            )


def _is_fused(variant: MeasuredVariant) -> bool:
    return any(timed.op_class == FUSED for timed in variant.recording.timed)


def _variant_notes(side: VariantBreakdown) -> Iterator[str]:
    yield from side.compiled.notes
    for change in side.variant.changes:
        yield f"{change['setting']} {change['from']} -> {change['to']}"
    yield from side.variant.notes


RATIO = (
    Column("ratio", "ratio", "ratio"),
    Column("ratio_q1", "25%", "ratio"),
    Column("ratio_q3", "75%", "ratio"),
)
FLOPS, BYTES = Column("flops_ratio", "FLOPs", "ratio"), Column("bytes_ratio", "bytes", "ratio", minor=True)
OVERVIEW = (
    Column("variant", ""),
    Column("changed", "variant"),
    Column("params_ratio", "params", "ratio", minor=True),
    FLOPS,
    BYTES,
    Column("wall_s", "wall", "seconds"),
    *RATIO,
)


def overview_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Every variant as a whole, the base first."""
    reliable = all(summary["reliable"] for summary in summaries)
    return Table("Variants" if reliable else "Variants: NOT RELIABLE, see the notes", OVERVIEW, summaries)


def class_table(variant: MeasuredVariant, lines: Sequence[Mapping[str, Any]]) -> Table:
    """A variant against the base by class of operation."""
    records = [{**line, "class": label_of(line["class"])} for line in lines]
    costs = Column("flops_ratio", "FLOPs", "ratio", minor=True), BYTES
    columns = (Column("class", "class"), *_seconds_columns(variant), *RATIO, *costs)
    return Table(f"{variant.letter} against A, by class: {variant.text}", columns, records)


def operator_table(variant: MeasuredVariant, lines: Sequence[Mapping[str, Any]], top: int) -> Table:
    """A variant against the base by operator, those whose time differs most; `top` 0 shows all."""
    largest = lines[: top or None]
    records = [{**line, "path": abbreviated(line["path"], line["operators"])} for line in largest]
    title = (
        f"{variant.letter} against A: the {len(largest)} operators of {len(lines)} whose time differs most"
    )
    difference = Column("difference_s", f"{variant.letter} - A", "seconds")
    columns = (Column("path", "operator"), *_seconds_columns(variant), difference, *RATIO)
    return Table(title, columns, records)


def _seconds_columns(variant: MeasuredVariant) -> tuple[Column, Column]:
    return Column("base_seconds", "A", "seconds"), Column("seconds", variant.letter, "seconds")


def quality_table(sides: Sequence[VariantBreakdown]) -> Table:
    """The quality table: reliability of the comparison."""
    timing = sides[0].variant.timing
    rounds = f"{len(timing.walls)}, {timing.recording.rejected}"
    lines: list[Fact] = [("rounds, rejected as disturbed", rounds, "text")]
    for side in sides:
        lines += [(f"{side.variant.letter}: {name}", value, unit) for name, value, unit in _quality(side)]
    machine = timing.recording.machine.items()
    return facts("How far to trust it", *lines, *((name, value, "text") for name, value in machine))


def _quality(side: VariantBreakdown) -> Iterator[Fact]:
    recording, breakdown = side.variant.recording, side.breakdown
    yield "plain wall, fastest to slowest", fastest_to_slowest(recording), "text"
    yield "traced / plain", overhead_ratio(recording), "ratio"
    yield "operations / plain", breakdown.attributed_share, "share"
    yield "unattributed", side.unattributed, "share"
    seen = f"{recording.counted} of {recording.executed}"
    yield "operations in the trace as expected", seen, "text"
    yield from side.device.facts


CONVENTION = (
    "Passes of all variants ran in turn; a ratio is taken within each round, variant over A, and shown as "
    "median and quartiles over the rounds. FLOP = 2 x multiply-add; FLOPs and bytes are counted, exact for "
    "the mask; time is measured."
)


def versus(
    variants: Sequence[MeasuredVariant], inputs: Mapping[str, Any], depth: int = 0, top: int = 0
) -> Report:
    """Compare variants with the first, A; `depth` and `top` 0 show everything."""
    base, *others = sides = [broken_down(variant, depth) for variant in variants]
    summaries: list[ReportedVariant] = [{**summary_of(base, base), "operators": []}]
    tables, rows = [], []
    for side in others:
        pair = comparable(base, side, depth)
        classes, operators = compared_classes(*pair), compared_operators(*pair, depth)
        summaries.append({**summary_of(base, side), "operators": operators})
        tables += [class_table(side.variant, classes), operator_table(side.variant, operators, top)]
        rows += classes
    recording = base.variant.recording
    return Report(
        command="profile",
        model={"name": base.variant.model.name, "source": base.variant.model.source},
        inputs=inputs,
        usual=usual_inputs(inputs["phase"]),
        convention=CONVENTION,
        totals={
            "variants": summaries,
            "rounds": len(base.variant.timing.walls),
            "rounds_rejected": recording.rejected,
            "partial": recording.partial,
            "machine": machine_figures(recording),
        },
        rows=rows,
        tables=(overview_table(summaries), *tables, quality_table(sides)),
        notes=tuple(notes_of(sides)),
        headline=", ".join(map(_in_words, summaries)),
    )


def _in_words(summary: ReportedVariant) -> str:
    """`A 12.3 ms a pass`, and of another variant `B 10.1 ms`, with what it changes."""
    changed = f" ({summary['changed']})" if summary["changed"] else ""
    return f"{summary['variant']}{changed} {three_figures(summary['wall_s'] * 1e3)} ms a pass"
