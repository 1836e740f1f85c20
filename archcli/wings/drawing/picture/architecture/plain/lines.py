"""Lines of coloured text and bars of block characters, in ASCII where a terminal needs it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archcli.errors import sanitize
from archcli.render.screen import cell_width
from archcli.wings.drawing.picture.architecture.style import HUES

Line = list[tuple[str, str]]
"""Pieces of a line, each with its style: a hue, `bold`, `dim`, or empty."""


class Signs(NamedTuple):
    """The characters of a drawing.

    full, parts: a block, and its eighths from thin to wide.
    stream, fork, join, back, link: line segments of a layer's wiring.
    times, dash, dot, more: signs within text.
    """

    parts: str
    full: str
    stream: str
    fork: str
    join: str
    back: str
    link: str
    times: str
    dash: str
    dot: str
    more: str


BLOCKS = Signs("▏▎▍▌▋▊▉", "█", "│", "├─", "⊕", "◄─┘", " ─ ", "×", "–", "·", "…")
ASCII = Signs("", "#", "|", "|-", "+", "<-'", " - ", "x", "-", "|", "...")


TABLE = {
    ord(sign): plain
    for sign, plain in {"·": "|", "×": "x", "–": "-", "−": "-", "→": "->", "…": "...", "σ": "sigma"}.items()
}
"""ASCII in place of signs."""


def signs_for(encoding: str | None) -> Signs:
    """Block characters, or ASCII for an encoding that lacks any of them."""
    try:
        "".join(BLOCKS).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def bar(share: float, room: int, signs: Signs) -> str:
    """A bar of block characters, in steps of an eighth of a column; of a column in ASCII."""
    steps = len(signs.parts) + 1
    eighths = max(1, round(share * room * steps)) if share > 0 else 0
    whole, rest = divmod(eighths, steps)
    return signs.full * whole + (signs.parts[rest - 1] if rest else "")


def fitted(line: Line, width: int, signs: Signs) -> Line:
    """A line cut to `width` columns, with an ellipsis."""
    if sum(cell_width(text) for text, _ in line) <= width:
        return line
    room, kept = width - len(signs.more), list[tuple[str, str]]()
    for text, style in line:
        piece = text
        while piece and cell_width(piece) > room:
            piece = piece[:-1]
        room -= cell_width(piece)
        kept.append((piece, style))
    return [*kept, (signs.more, "")]


def encoded(lines: Iterable[Line], width: int, signs: Signs) -> list[Line]:
    """Lines as they are printed: cut, and without control characters."""
    cleaned = sanitize if signs is BLOCKS else _ascii
    return [fitted([(cleaned(text), style) for text, style in line], width, signs) for line in lines]


def _ascii(text: str) -> str:
    return sanitize(text).translate(TABLE).encode("ascii", "replace").decode()


def plain(lines: Sequence[Line]) -> str:
    """Lines without colours."""
    return "".join(f"{''.join(text for text, _ in line).rstrip()}\n" for line in lines)


def coloured(lines: Sequence[Line]) -> str:
    """Lines with the colours of their hues, for a terminal."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, highlight=False, emoji=False, soft_wrap=True)
    for line in lines:
        text = Text()
        for content, style in line:
            text.append(content, HUES[style].solid if style in HUES else style)
        text.rstrip()
        console.print(text)
    return out.getvalue()
