"""Findings of `archcli check` as text: a line each, or a paragraph that draws the line of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archcli.errors import Problem
from archcli.render.findings.problems import paragraph
from archcli.render.screen import folded
from archcli.wording import disarm, format_value, sanitize

if TYPE_CHECKING:
    from archcli.measure.report import Report
    from archcli.rules.diagnostics import Diagnostic

UNPATCHED = "not stated in a file that could be patched; as options of archcli:"
MOST_OPTIONS = 4
"""A help line lists at most so many `--set` options."""


def full(report: Report, diagnostics: Iterable[Diagnostic], width: int | None) -> str:
    """Each finding under its line of the file, then the notes and a summary.

    With a `width`, text is folded to that many columns.
    """
    paragraphs = [_paragraph(diagnostic, width) + "\n" for diagnostic in diagnostics]
    below = [*(f"note: {sanitize(note)}" for note in report.notes), summary(report.totals)]
    return disarm("\n".join([*paragraphs, *(part for line in below for part in folded(line, width))]) + "\n")


def concise(report: Report) -> str:
    """A line for each finding, then a summary."""
    lines = [sanitize(_line(row)) for row in report.rows]
    return "\n".join([*lines, summary(report.totals)]) + "\n"


def unpatched(source: str, changes: Iterable[tuple[str, Any]]) -> str:
    """Comments below a patch: the changes it could not write into the file, as `--set` options."""
    options = [f"#   {_option(path, value)}\n" for path, value in changes]
    return "".join([f"# {sanitize(source)}: {UNPATCHED}\n", *options]) if options else ""


def summary(totals: Mapping[str, Any]) -> str:
    """How many findings of each severity: `2 models checked: 1 error, 3 warnings.`."""
    models = _plural(totals["models"], "model")
    if not totals["findings"]:
        return f"{models} checked: no findings."
    counts = [(kind, totals[f"{kind}s"]) for kind in ("error", "warning", "info")]
    return f"{models} checked: {', '.join(_plural(n, kind) for kind, n in counts if n)}."


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 or noun == "info" else f"{n} {noun}s"


def _line(row: Mapping[str, Any]) -> str:
    place = "{file}:{line}:{column}".format(**row["where"])
    return f"{place}: {row['severity']}[{row['code']}] {row['message']}"


def _paragraph(diagnostic: Diagnostic, width: int | None) -> str:
    rule, finding, standing = diagnostic.rule, diagnostic.finding, diagnostic.standing
    expected = f"expected {finding.expected}" if finding.expected else ""
    field = "" if diagnostic.mark.text.strip(" {") else finding.path  # where no line of the file names it
    notes = [("field", field), ("seen", standing.words() if standing else ""), ("source", rule.source)]
    options = [_option(fix.path, fix.value) for fix in finding.fixes]
    help_ = "; ".join(filter(None, [finding.help, _first_options(options)]))
    problem = Problem("; ".join(filter(None, [finding.message, expected])), help_, diagnostic.mark)
    return paragraph(problem, f"{rule.severity}[{rule.code}]", *notes, width=width)


def _option(path: str, value: Any) -> str:
    return f"--set {path}={format_value(value)}"


def _first_options(options: Sequence[str]) -> str:
    """The first options, and the number of the others."""
    more = [f"and {len(options) - MOST_OPTIONS} more"] if len(options) > MOST_OPTIONS else []
    return " ".join([*options[:MOST_OPTIONS], *more])
