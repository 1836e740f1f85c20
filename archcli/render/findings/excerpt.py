"""A line of a file with carets below it, cut to the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.errors import Mark
from archcli.render.screen import cell_width
from archcli.wording import sanitize

TAB = "    "
INDENT = "    "
WINDOW = 100
"""Columns of a line that are drawn at most."""
BEFORE = 40
"""How many of them precede the caret where a line is cut on both sides."""
ELLIPSES = 2


def excerpt(mark: Mark, width: int | None = None) -> tuple[str, ...]:
    """The line of a mark and the carets below it, both indented; nothing for an empty line.

    With a `width`, neither is wider; a longer line is cut around the first caret.
    """
    if not mark.text.strip():
        return ()
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
    first = _reach(widths[:start][::-1], room - sum(widths[start : start + last]))
    while first and not widths[start - first]:  # a combining mark without the letter below it
        first -= 1
    return start - first, start + last


def _reach(widths: Sequence[int], room: int) -> int:
    """How many cells fit into `room` columns, from the first on."""
    for i, width in enumerate(widths):
        room -= width
        if room < 0:
            return i
    return len(widths)
