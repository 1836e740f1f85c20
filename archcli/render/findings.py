"""Errors and findings as text: a line each, or with the line of the file and a caret."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError, Mark, Problem, disarm, format_value, sanitize
from archcli.render.screen import cell_width, columns, folded, painted

if TYPE_CHECKING:
    from archcli.measure.report import Report
    from archcli.rules.diagnostics import Diagnostic

TAB = "    "
INDENT = "    "
WINDOW = 100
"""The most columns of a drawn line."""
BEFORE = 40
"""Columns before the caret where a line is cut on both sides."""
# columns: one ellipsis on each side of a cut line
ELLIPSES = 2


def excerpt(mark: Mark, width: int | None = None) -> tuple[str, ...]:
    """The line of a mark and the carets below it, both indented; nothing for an empty line.

    With a `width`, neither is wider; a longer line is cut around the first caret.
    """
    if not mark.text.strip():
        return ()
    # a mark counts characters, carets count columns: a tab or an escape takes several
    cells = [sanitize(TAB if char == "\t" else char) for char in mark.text]
    widths = [cell_width(cell) for cell in cells]
    start = min(mark.column - 1, len(cells))
    room = WINDOW if width is None else min(WINDOW, width - len(INDENT) - ELLIPSES)
    first, last = _window(widths, start, room)
    end = min(start + mark.width, last)
    lead, tail = "…" if first else "", "…" if last < len(cells) else ""
    line = lead + "".join(cells[first:last]) + tail
    carets = " " * (len(lead) + sum(widths[first:start])) + "^" * max(1, sum(widths[start:end]))
    return INDENT + line.rstrip(), INDENT + carets


def _window(widths: Sequence[int], start: int, room: int) -> tuple[int, int]:
    """(first, last) of the cells that are drawn, in `room` columns besides the ellipses."""
    if sum(widths) <= room + ELLIPSES:
        return 0, len(widths)
    first = _reach(widths[:start][::-1], min(BEFORE, room // 2))
    last = _reach(widths[start:], room - sum(widths[start - first : start]))
    # what the right end leaves over goes to the left
    first = _reach(widths[:start][::-1], room - sum(widths[start : start + last]))
    while first and not widths[start - first]:  # a combining mark without the letter below it
        first -= 1
    return start - first, start + last


def _reach(widths: Sequence[int], room: int) -> int:
    """The number of cells that fit into `room` columns."""
    for i, width in enumerate(widths):
        room -= width
        if room < 0:
            return i
    return len(widths)


BELOW = "    "
"""The indent of a message's further lines."""


def complain(error: ArchError) -> str:
    """An error as standard error shows it: folded and coloured on a terminal, unchanged in a file."""
    return painted(explain(error, columns(sys.stderr)), sys.stderr)


def explain(error: ArchError, width: int | None = None) -> str:
    """Every problem of an error, a paragraph each, folded to `width` columns where it is given.

    Of several problems in one place the first draws the line of the file.
    """
    marks = [problem.mark for problem in error.problems]
    shown = [
        replace(problem, mark=replace(mark, text="")) if mark and mark == before else problem
        # each beside the one before it; the last list is one longer
        for problem, mark, before in zip(error.problems, marks, [None, *marks], strict=False)
    ]
    return "\n".join(paragraph(problem, width=width) for problem in shown)


def paragraph(
    problem: Problem, label: str = "error", *notes: tuple[str, str], width: int | None = None
) -> str:
    """A problem: place, `label` and message, the line with a caret, help, then named notes.

    With a `width` no line is longer than that.
    """
    mark = problem.mark
    # an option has one line, and the carets show where in it
    where = sanitize((mark.file if mark.file.startswith("--") else str(mark)) if mark else problem.path)
    message = f"{where}: {label}: {sanitize(problem.what)}" if where else f"{label}: {sanitize(problem.what)}"
    drawing = excerpt(mark, width) if mark else ()
    below = [f"  = {name}: {sanitize(text)}" for name, text in (("help", problem.hint), *notes) if text]
    notes_below = [part for line in below for part in folded(line, width, BELOW)]
    return "\n".join([*folded(message, width, BELOW), *drawing, *notes_below])


UNPATCHED = "not stated in a file that could be patched; as options of archcli:"
MOST_OPTIONS = 4
"""The most `--set` options in a help line."""


def full(report: Report, diagnostics: Iterable[Diagnostic], width: int | None) -> str:
    """The number of findings, each of them under its line of the file, then the notes.

    With a `width`, text is folded to that many columns.
    """
    first = "\n".join(folded(_checked(report), width))
    below = [part for note in report.notes for part in folded(f"note: {sanitize(note)}", width)]
    paragraphs = [_paragraph(diagnostic, width) for diagnostic in diagnostics]
    return disarm("\n\n".join([first, *paragraphs, *(["\n".join(below)] if below else [])]) + "\n")


def concise(report: Report) -> str:
    """A line for each finding, which editors read, then their number."""
    lines = [sanitize(_line(row)) for row in report.rows]
    return "\n".join([*lines, _checked(report)]) + "\n"


def unpatched(source: str, changes: Iterable[tuple[str, Any]]) -> str:
    """Comments below a patch: the changes it could not write into the file, as `--set` options."""
    options = [f"#   {_option(path, value)}\n" for path, value in changes]
    return "".join([f"# {sanitize(source)}: {UNPATCHED}\n", *options]) if options else ""


def _checked(report: Report) -> str:
    """`2 models checked: 1 error, 3 warnings.`."""
    n = report.totals["models"]
    return f"{n} model{'' if n == 1 else 's'} checked: {report.headline}."


def _line(row: Mapping[str, Any]) -> str:
    place = "{file}:{line}:{column}".format(**row["where"])
    return f"{place}: {row['severity']}[{row['code']}] {row['message']}"


def _paragraph(diagnostic: Diagnostic, width: int | None) -> str:
    rule, finding, standing = diagnostic.rule, diagnostic.finding, diagnostic.standing
    expected = f"expected {finding.expected}" if finding.expected else ""
    field = "" if diagnostic.mark.text.strip(" {") else finding.path  # where no line of the file names it
    seen = standing.text() if standing else ""
    notes = [("field", field), ("known", diagnostic.known), ("seen", seen), ("source", rule.source)]
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
