"""Problems as a compiler prints them: place, message, the line with a caret below it, help."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import combining, east_asian_width

from archcli.errors import SET, ArchError, Mark, Problem
from archcli.wording import sanitize

TAB = "    "
WINDOW = 100
"""Columns of a long line that are drawn around the caret."""
BEFORE = 40
"""How many of them precede the caret."""
EDGE = 6
"""Columns of the indent and of the ellipses at both ends."""


def explain(error: ArchError) -> str:
    """Every problem of an error, a paragraph each."""
    return "\n".join(paragraph(problem) for problem in error.problems)


def paragraph(
    problem: Problem, label: str = "error", *notes: tuple[str, str], width: int | None = None
) -> str:
    """A problem: place, `label` and message, the line with a caret, help, then named notes.

    With a `width` no line is longer than that.
    """
    mark = problem.mark
    where = sanitize((mark.file if mark.file == SET else str(mark)) if mark else problem.path)
    message = f"{where}: {label}: {sanitize(problem.what)}" if where else f"{label}: {sanitize(problem.what)}"
    window = WINDOW if width is None else min(WINDOW, width - EDGE)
    drawing = _drawing(mark, window) if mark and mark.text.strip() else ()
    below = [f"  = {name}: {sanitize(text)}" for name, text in (("help", problem.hint), *notes) if text]
    return "\n".join([*_folded([message], width), *drawing, *_folded(below, width)])


def _folded(lines: Iterable[str], width: int | None) -> list[str]:
    """Lines that are too long continue below, indented."""
    if width is None:
        return list(lines)
    from textwrap import wrap

    return [
        part for line in lines for part in wrap(line, width, subsequent_indent="    ", break_on_hyphens=False)
    ]


def _drawing(mark: Mark, window: int = WINDOW) -> tuple[str, str]:
    """The line and the caret under it."""
    start, end = mark.column - 1, mark.column - 1 + mark.width
    first = max(0, start - min(BEFORE, window // 2)) if len(mark.text) > window else 0
    last = min(len(mark.text), first + window)
    lead, tail = "…" if first else "", "…" if last < len(mark.text) else ""
    before, under, after = (
        mark.text[first:start],
        mark.text[start : min(end, last)],
        mark.text[min(end, last) : last],
    )
    line = lead + _printable(before) + _printable(under) + _printable(after) + tail
    caret = " " * _columns(lead + _printable(before)) + "^" * max(1, _columns(_printable(under)))
    return f"    {line.rstrip()}", f"    {caret}"


def _printable(text: str) -> str:
    return sanitize(text.replace("\t", TAB))


def _columns(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
