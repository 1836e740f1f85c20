"""The SVG of a profile: a heading, and the figure below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from archcli.render.picture.elements import LINE, drawing, sheet, text
from archcli.render.picture.labels import wrapped

WIDTH, GAP = 912, 28
Figure = Callable[[float, float], tuple[list[str], float]]
"""A function of (top, width): (shapes, y of their end)."""


class FigureTable(NamedTuple):
    """A table of the page: its lines, the first `most` of which are shown."""

    title: str
    what: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    most: int


class Picture(NamedTuple):
    """The content of a profile's picture, for SVG and for a page.

    title, lead, settings: lines above the figure.
    warnings, reliable: warnings, shown unless the profile is reliable.
    figure: draws the figure.
    tables: of the page.
    """

    title: str
    lead: str
    warnings: Sequence[str]
    reliable: bool
    settings: str
    figure: Figure
    tables: Sequence[FigureTable]


def svg(picture: Picture) -> str:
    """The picture as one SVG file, for light and dark backgrounds."""
    heading, top = _heading(picture)
    inside, height = picture.figure(top + GAP - LINE, WIDTH)
    return sheet([*heading, *inside], WIDTH, height) + "\n"


def figure(picture: Picture, width: float) -> str:
    """The figure alone, for a page that has the heading and `elements.STYLE`."""
    inside, height = picture.figure(0.0, width)
    return drawing(inside, 0, width, height)


def _heading(picture: Picture) -> tuple[list[str], float]:
    """The lines above the figure, and the y of its top."""
    lines, y = list[str](), 0.0
    paragraphs = [(picture.title, "title", 18), (picture.lead, "lead", 14)]
    paragraphs += [(warning, "warning", 12) for warning in picture.warnings if not picture.reliable]
    paragraphs.append((picture.settings, "soft", 12))
    for content, class_, size in paragraphs:
        for line in wrapped(content, WIDTH, size, bold=class_ != "soft") if content else ():
            y += LINE * max(1.0, size / 13)
            lines.append(text(0, y - 4, line, class_))
    return lines, y + LINE
