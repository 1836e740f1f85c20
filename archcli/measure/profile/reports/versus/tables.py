"""Tables of a comparison: all variants, and each against the base by class and by operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.operators import abbreviated
from archcli.measure.profile.quality import fastest_to_slowest, overhead_ratio
from archcli.measure.profile.reports.gpu import device_facts
from archcli.measure.profile.reports.versus.variant import MeasuredVariant, VariantBreakdown
from archcli.measure.report import Column, Table, Unit, facts
from archcli.recording.classes import label_of

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
    lines: list[tuple[str, Any, Unit]] = [("rounds, rejected as disturbed", rounds, "text")]
    for side in sides:
        lines += [(f"{side.variant.letter}: {name}", value, unit) for name, value, unit in _quality(side)]
    machine = timing.recording.machine.items()
    return facts("How far to trust it", *lines, *((name, value, "text") for name, value in machine))


def _quality(side: VariantBreakdown) -> Iterator[tuple[str, Any, Unit]]:
    recording, breakdown = side.variant.recording, side.breakdown
    yield "plain wall, fastest to slowest", fastest_to_slowest(recording), "text"
    yield "traced / plain", overhead_ratio(recording), "ratio"
    yield "operations / plain", breakdown.attributed_share, "share"
    yield "unattributed", side.unattributed, "share"
    seen = f"{recording.counted} of {recording.executed}"
    yield "operations in the trace as expected", seen, "text"
    yield from device_facts(recording, breakdown.wall_s)
