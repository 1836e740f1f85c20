"""The head of a drawing: the model's name, what it is, and its key figures."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import TYPE_CHECKING

from archcli.wings.drawing.picture.architecture.page.printed import cut, lines_of, number, words_of
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import LEADING, Word, Words, text, width_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy

GAP = 28.0
"""Units between two key figures."""
TITLE, SUBTITLE, KEY, CAPTION = 44.0, 70.0, 42.0, 62.0
"""Baselines from the top of the page."""
HEIGHT, ROW = 84.0, 48.0
"""Units of a header, and of key figures that stand below it, as a long name leaves no room beside it."""
Keys = list[tuple[Word, Words, float]]


def height(anatomy: Anatomy, width: float, *, keys_right: bool = True) -> float:
    """Units of the header in a width; `keys_right` sets key figures beside a short name."""
    keys_right = keys_right and _fits(anatomy, width)
    below = 0.0 if keys_right else ROW * len(_rows(_keys(anatomy), width))
    return HEIGHT + LEADING * (len(_subtitle(anatomy, width, keys_right)) - 1) + below


def shapes(anatomy: Anatomy, x: float, width: float, *, keys_right: bool = True) -> Iterator[SvgShape | Many]:
    """The name and the key figures between x and x + width, from the top of the page."""
    keys_right = keys_right and _fits(anatomy, width)
    yield text(x, TITLE, cut(anatomy.title, width, "title"), "title")
    lines = _subtitle(anatomy, width, keys_right)
    for i, line in enumerate(lines):
        yield text(x, SUBTITLE + LEADING * i, line, "small", "muted")
    keys = _keys(anatomy)
    if keys_right:
        yield from _row(keys, x + width)
        return
    y = HEIGHT - KEY + 20 + LEADING * (len(lines) - 1)
    rows = _rows(keys, width)
    widest = max(key[2] for key in keys)
    for i, row in enumerate(rows):
        left = x
        for word, caption, room in row:
            yield text(left, y + KEY + ROW * i, (word,), "key")
            yield text(left, y + CAPTION + ROW * i, caption, ink="muted")
            left += (room if len(rows) == 1 else widest) + GAP


def _subtitle(anatomy: Anatomy, width: float, keys_right: bool) -> list[Words]:
    taken = fsum(key[2] + GAP for key in _keys(anatomy)) if keys_right else 0.0
    # the second line stands below the key figures
    lines = [*lines_of(anatomy.subtitle, width - taken), *lines_of(anatomy.settings, width)]
    return [line for line in lines if line]


def _keys(anatomy: Anatomy) -> Keys:
    """The key figures as text, with the room of each."""
    printed = ((number(figure, form), caption_of(caption)) for figure, caption, form in anatomy.headline)
    return [(word, caption, max(width_of((word,), "key"), width_of(caption))) for word, caption in printed]


def caption_of(caption: str) -> Words:
    """A caption below a figure that has its unit, with the figures that it names."""
    first, *further = words_of(caption)
    return (first._replace(content=first.content.removeprefix("FLOP ")), *further)


def _fits(anatomy: Anatomy, width: float) -> bool:
    """Whether the key figures fit beside the name."""
    keys = _keys(anatomy)
    longest = max(map(width_of, anatomy.subtitle.split("·")), default=0.0)
    title_width = max(width_of(anatomy.title, "title"), min(longest, width / 3))
    return title_width + fsum(key[2] + GAP for key in keys) <= width


def _rows(keys: Keys, width: float) -> list[Keys]:
    """Key figures in one row where they fit, else in rows of equal length."""
    if fsum(key[2] + GAP for key in keys) - GAP <= width:
        return [keys]
    most = max(1, int((width + GAP) // (max(key[2] for key in keys) + GAP)))
    rows = -(-len(keys) // most)
    per_row = -(-len(keys) // rows)
    return [keys[i : i + per_row] for i in range(0, len(keys), per_row)]


def _row(keys: Keys, right: float) -> Iterator[SvgShape | Many]:
    """A row of key figures that ends at `right`."""
    for word, caption, room in reversed(keys):
        yield text(right, KEY, (word,), "key", anchor="end")
        yield text(right, CAPTION, caption, ink="muted", anchor="end")
        right -= room + GAP
