"""Texts of a drawing: numbers between words, and words in the room that there is."""

from __future__ import annotations

from typing import Any

from archcli.measure.survey.anatomy.records import Figure
from archcli.render.picture.architecture.numbers import written
from archcli.render.picture.architecture.shapes import Shape
from archcli.render.picture.architecture.style import text, width_of
from archcli.render.picture.architecture.traced import plain_text

UNITS = {"short": "count", "exact": "whole"}
"""Forms of a headline that `written` knows by another name."""


def number(figure: Figure, unit: str = "count", before: str = "", after: str = "") -> str:
    """A figure as text, rounded as commands round it, between the words around it."""
    return f"{before}{written(figure.value, UNITS.get(unit, unit))}{after}"


def printed(  # noqa: PLR0913, PLR0917 - a place, a figure, and how it is written
    x: Any,
    y: Any,
    figure: Figure,
    content: str,
    size: str = "small",
    ink: str = "ink",
    anchor: str = "start",
) -> Shape:
    """A line of text that prints a figure, and carries its address."""
    return text(x, y, content, size, ink, anchor, figure)


def room_of(content: str, size: str = "small") -> float:
    """Units that a text takes at most, those of its traced numbers as they are for this model."""
    return width_of(plain_text(content), size)


def cut(content: str, width: float, size: str = "small") -> str:
    """A text that ends in an ellipsis where it is wider than its room."""
    if width_of(content, size) <= width:
        return content
    while content and width_of(f"{content}…", size) > width:
        content = content[:-1]
    return f"{content.rstrip()}…"


def lines_of(content: str, width: float, size: str = "small") -> list[str]:
    """A text in lines of at most a width, broken between words; a longer word is cut."""
    lines = [""]
    for word in content.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [cut(line, width, size) for line in lines]
