"""The picture of `archcli fit`: the longest context of each format that fits a device, and its speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, floor, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.render.picture.elements import element, paragraph, sheet, text, titled
from archcli.render.picture.files import save_drawing
from archcli.render.picture.labels import text_width
from archcli.render.plain import heading
from archcli.render.values import short

if TYPE_CHECKING:
    from archcli.measure.report import Report

WIDTH, LINE = 912.0, 20
BAR, STEP, NAMES, LABELS = 22, 32, 150, 300
"""Pixels of a bar, from one to the next, of the formats to their left and of the words to their right."""
NARROW_STEP, NARROW_NAMES, WIDE = 52, 74, 640
"""The same where the words stand below the bar: on phones, in fewer than so many pixels."""
TICK_ROOM = 64
"""Pixels that a number on the axis takes, with what is left free beside it."""
CHOSEN, OTHER = "#0072b2", "#56b4e9"
"""Of the colour-blind-safe palette of Okabe and Ito (2008)."""
TITLE = "Longest context of each format that fits, the largest weights first; tokens on a scale of doublings"

Record = Mapping[str, Any]


class TokenAxis(NamedTuple):
    """Tokens from left to right: powers of two at the ends, `left` and `right` in pixels."""

    low: int
    high: int
    left: float
    right: float

    def at(self, tokens: float) -> float:
        """The place of so many tokens."""
        share = (log2(tokens) - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def ticks(self) -> list[int]:
        """Powers of two whose numbers do not touch."""
        room = (self.right - self.left) / (self.high - self.low)
        return [2**n for n in range(self.low, self.high + 1, ceil(TICK_ROOM / room))]


def save_fit(report: Report, output: Path) -> None:
    """Write the picture of a verdict with every format, as its file's suffix says."""
    save_drawing(heading(report), lambda width: fit_svg(report, width), WIDTH, output)


def fit_svg(report: Report, width: float = WIDTH) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    # a verdict of what does not fit has one table, without records
    formats = report.tables[-1].records
    head, y = paragraph(heading(report), LINE - 6, width, "title", 15)
    if not formats:
        return sheet(head, width, y)
    title, y = paragraph(TITLE, y + 6, width, "name")
    context = report.inputs["context"]
    is_wide = width >= WIDE
    names, step = (NAMES, STEP) if is_wide else (NARROW_NAMES, NARROW_STEP)
    contexts = [record["context"] for record in formats]
    right = width - (LABELS if is_wide else TICK_ROOM / 2)
    # a bar of the shortest context is to be seen
    low = floor(log2(min(contexts))) - 1
    axis = TokenAxis(low, max(ceil(log2(max(contexts))), low + 2), names, right)
    top = y + (LINE if context else 0)
    bottom = top + len(formats) * step
    shapes = [*_grid(axis, top, bottom)]
    for i, record in enumerate(formats):
        is_chosen = all(record[key] == report.totals[key] for key in ("format", "engine", "context"))
        shapes += _bar(record, axis, top + i * step, is_chosen=is_chosen, is_wide=is_wide)
    if context:
        shapes += _context_line(context, axis, top, bottom)
    return sheet([*head, *title, *shapes], width, bottom + 2 * LINE)


def _grid(axis: TokenAxis, top: float, bottom: float) -> Iterator[str]:
    for tokens in axis.ticks():
        x = axis.at(tokens)
        yield element("line", x1=x, y1=top - 4, x2=x, y2=bottom, class_="grid")
        yield text(x, bottom + 14, f"{tokens:,}", "soft", "middle")
    middle = (axis.left + axis.right) / 2
    yield text(middle, bottom + 32, "tokens of context", "soft", "middle")


def _bar(record: Record, axis: TokenAxis, y: float, *, is_chosen: bool, is_wide: bool) -> Iterator[str]:
    """A format's name, its bar, and its context and speed in words."""
    name, context, engine = record["format"], record["context"], record["engine"]
    label = f"{context:,} tokens, {record['rate']}"
    yield text(0, y + 15, name, "name" if is_chosen else None)
    if is_wide:
        yield text(axis.left - 8, y + 15, engine, "soft", "end")
    end = axis.at(context)
    colour = CHOSEN if is_chosen else OTHER
    shape = element("rect", x=axis.left, y=y, width=end - axis.left, height=BAR, rx=2, fill=colour)
    chosen = ", chosen" if is_chosen else ""
    yield titled(shape, f"{name} by {engine}: {label}, {short(record['peak_bytes'], 'bytes')}{chosen}")
    label = f"chosen: {label}" if is_chosen else label
    x, baseline = (end + 8, y + 15) if is_wide else (0.0, y + BAR + 15)
    yield text(x, baseline, label, "name mark" if is_chosen else "soft mark")


def _context_line(tokens: int, axis: TokenAxis, top: float, bottom: float) -> Iterator[str]:
    """The line of the context that is asked for."""
    x = axis.at(tokens)
    if axis.left <= x <= axis.right:
        yield element("line", x1=x, y1=top - 4, x2=x, y2=bottom, class_="roof", stroke_dasharray="5 4")
        label = f"asked for: {tokens:,}"
        half = text_width(label) / 2
        yield text(min(max(x, half), axis.right - half), top - 8, label, None, "middle")
