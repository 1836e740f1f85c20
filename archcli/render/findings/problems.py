"""Problems as a compiler prints them: place, message, the line with a caret below it, help."""

from __future__ import annotations

import sys
from dataclasses import replace

from archcli.errors import ArchError, Problem
from archcli.render.findings.excerpt import excerpt
from archcli.render.screen import columns, folded, painted
from archcli.wording import sanitize

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
