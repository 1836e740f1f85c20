"""Texts of a drawing in the room that there is: cut, or in several lines."""

from __future__ import annotations

from typing import Any

from archcli.measure.survey.anatomy.records import Figure
from archcli.render.picture.architecture.style import Word, width_of

UNITS = {"short": "count", "exact": "whole"}
"""Forms of a headline that `written` knows by another name."""


def number(figure: Figure, unit: str = "count") -> Word:
    """A figure as text, rounded as commands round it."""
    return Word("", figure, UNITS.get(unit, unit))


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


def steps(*pieces: Any) -> str:
    """The steps of a path: letters and coordinates."""
    return " ".join(piece if type(piece) is str else f"{piece:.1f}" for piece in pieces)
