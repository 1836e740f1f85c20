"""A watched program in at most 40 lines of Markdown: what takes its time, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.report import Report
from archcli.units import PREFIXES, scaled, three_figures
from archcli.wings.running.recording.program import class_label

MOST_LINES = 40
CLASSES, MODULES, FINDINGS, NOTES = 6, 10, 6, 3
"""Lines of each part at most; headings and blank lines are the rest."""
ALWAYS, NOTICEABLE = 3, 0.01
"""Modules that are always shown, and the share of a step from which others are."""
LONGEST = 160
"""Characters of a line at most."""


def summary(report: Report) -> str:
    """The summary of a program's report."""
    lines = [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in _lines(report)]
    return "\n".join(lines[:MOST_LINES]) + "\n"


def _lines(report: Report) -> Iterator[str]:
    totals = report.totals
    yield f"# Where the time of `{report.model['name']}` goes"
    yield ""
    yield _first(totals)
    yield ""
    yield "## What takes the time"
    yield ""
    classes = sorted(totals["by_class"].items(), key=lambda item: -item[1])[:CLASSES]
    shares = (f"{class_label(name)} {share:.1%}" for name, share in classes if share)
    yield f"By class: {', '.join(shares)}."
    yield ""
    for row in _slowest(report.rows):
        names = ", ".join(row["operations"])
        yield f"- {row['share']:.1%} `{row['path']}`{_kind(row)}, {row['phase']}: {names}"
    findings = totals["advice"][:FINDINGS]
    yield ""
    yield "## What is unusual, and what to try"
    yield ""
    for finding in findings:
        yield f"- {finding['figure']:.1%} {finding['what']}: try {finding['attempt']}."
    if not findings:
        yield "- Nothing: no part of a step is larger than usual."
    yield from _prediction(totals)
    if report.notes:
        yield ""
        yield from (f"- Note: {note}" for note in report.notes[:NOTES])


def _slowest(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The slowest rows: a few, or more of those that take a noticeable share."""
    return [row for i, row in enumerate(rows[:MODULES]) if i < ALWAYS or row["share"] >= NOTICEABLE]


def _kind(row: Mapping[str, Any]) -> str:
    return f" ({row['module']})" if row["module"] else ""


def _first(totals: Mapping[str, Any]) -> str:
    mfu = "" if totals["mfu"] is None else f", MFU {totals['mfu']:.1%}"
    flops = (
        f", {scaled(totals['matmul_flops'], 1000, PREFIXES, ' ')}FLOP of products"
        if totals["matmul_flops"]
        else ""
    )
    time, kernels = three_figures(totals["step_s"] * 1e3), f"{totals['kernels_per_step']:.0f}"
    traced = f"{totals['steps_watched']} of {totals['steps']} steps were traced"
    return f"A step takes {time} ms (median), {kernels} kernels{flops}{mfu}; {traced}."


def _prediction(totals: Mapping[str, Any]) -> Iterator[str]:
    prediction = totals.get("prediction")
    if prediction:
        yield ""
        yield (
            f"Predicted for {prediction['model']} on {prediction['device']}: "
            f"{prediction['predicted_s'] * 1e3:,.1f} ms; measured / predicted "
            f"{prediction['measured_over_predicted']:.2f}."
        )
