"""Texts of a drawing in the room that there is: cut, or in lines that keep their figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.wings.drawing.drawn import Figure
from archcli.wings.drawing.picture.architecture.style import Word, Words, line_of, width_of

UNITS = {"short": "count", "exact": "whole"}
"""Forms of a headline that `written` knows by another name."""


def number(figure: Figure, unit: str = "count") -> Word:
    """A figure as text, rounded as commands round it."""
    return Word("", figure, UNITS.get(unit, unit))


def words_of(line: str) -> Words:
    """A line in words and the figures that it names."""
    return line_of(line)


def cut(content: str, width: float, size: str = "small") -> str:
    """A text that ends in an ellipsis where it is wider than its room."""
    if width_of(content, size) <= width:
        return content
    while content and width_of(f"{content}…", size) > width:
        content = content[:-1]
    return f"{content.rstrip()}…"


def lines_of(content: str, width: float, size: str = "small") -> list[Words]:
    """A text in lines of at most a width, broken between words; a longer word is cut."""
    lines: list[Words] = [()]
    whole = [*_tokens(words_of(content), glued=True)]
    # what stands in parentheses stays together where it fits
    fits = all(width_of(token, size) <= width for token in whole)
    for token in whole if fits else _tokens(words_of(content), glued=False):
        longer = (*lines[-1], Word(" "), *token) if lines[-1] else token
        if lines[-1] and width_of(longer, size) > width:
            lines.append(token)
        else:
            lines[-1] = longer
    return [_joined(line, width, size) for line in lines]


def _tokens(phrase: Words, *, glued: bool) -> Iterator[Words]:
    """What stands between spaces; `glued`: those in parentheses do not part."""
    token, is_open = list[Word](), False
    for word in phrase:
        pieces = word.content.split(" ") if word.figure is None else [""]
        for i, piece in enumerate(pieces):
            if i and token and is_open:
                token.append(Word(" "))
            elif i and token:
                yield tuple(token)
                token = []
            is_open = glued and (is_open or "(" in piece) and ")" not in piece
            if piece or word.figure is not None:
                token.append(word._replace(content=piece))
    if token:
        yield tuple(token)


def _joined(phrase: Words, width: float, size: str) -> Words:
    """Neighbouring words as one; a line that is one word too wide is cut."""
    line = list[Word]()
    for word in phrase:
        if line and word.figure is None and line[-1].figure is None:
            line[-1] = line[-1]._replace(content=line[-1].content + word.content)
        else:
            line.append(word)
    if len(line) == 1 and line[0].figure is None:
        return (line[0]._replace(content=cut(line[0].content, width, size)),)
    return tuple(line)


def steps(*pieces: Any) -> str:
    """The steps of a path: letters and coordinates."""
    return " ".join(piece if type(piece) is str else f"{piece:.1f}" for piece in pieces)
