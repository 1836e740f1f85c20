"""The report of `archcli profile --vs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archcli.measure.profile.reports.gpu import machine_figures
from archcli.measure.profile.reports.headings import usual_inputs
from archcli.measure.profile.reports.versus.lines import compared_classes, compared_operators, summary_of
from archcli.measure.profile.reports.versus.notes import notes_of
from archcli.measure.profile.reports.versus.tables import (
    class_table,
    operator_table,
    overview_table,
    quality_table,
)
from archcli.measure.profile.reports.versus.variant import MeasuredVariant, broken_down, comparable
from archcli.measure.profile.schema.versus import ReportedVariant
from archcli.measure.report import Report

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
    )
