"""Room for text: how wide it is, how it wraps, and where in a drawing it covers nothing.

Who looks at a picture chooses the font, so that widths are those of a wide one (DejaVu Sans) and text is
narrower, if anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import fsum, hypot
from typing import NamedTuple

WIDTHS = {
    **dict.fromkeys("ijl|!'.,:; I", 0.36),
    **dict.fromkeys('tfr()[]-/"', 0.45),
    **dict.fromkeys("mwMW%@+=", 0.96),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 0.74),
}
"""Widths of characters as multiples of the font's size."""
# of any other character; from the CJK radicals on every one fills a square
USUAL, FULL_WIDTH, FIRST_FULL = 0.64, 1.0, "\u2e80"
# bold text is so many times as wide
BOLD = 1.12


class Box(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float


class Circle(NamedTuple):
    """A circle, which marks an operator."""

    x: float
    y: float
    radius: float


class Segment(NamedTuple):
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float


def text_width(content: str, size: float = 12, *, bold: bool = False) -> float:
    """Pixels that a line of text may take."""
    # not sum: from Python 3.12 on it rounds less, and a drawing is to be the same on every Python
    em = fsum(WIDTHS.get(char, FULL_WIDTH if char >= FIRST_FULL else USUAL) for char in content)
    return em * size * (BOLD if bold else 1.0)


def wrapped(content: str, width: float, size: float = 12, *, bold: bool = False) -> Iterator[str]:
    """Wrap a text to lines of at most `width` pixels; a longer word is broken."""
    line = ""
    pieces = (_pieces(word, width, size * (BOLD if bold else 1.0)) for word in content.split())
    for word in chain.from_iterable(pieces):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size, bold=bold) > width:
            yield line
            longer = word
        line = longer
    yield line


def _pieces(word: str, width: float, size: float) -> Iterator[str]:
    """Split a word into pieces of at most `width` pixels."""
    piece = ""
    for char in word:
        if piece and text_width(piece + char, size) > width:
            yield piece
            piece = ""
        piece += char
    yield piece


@dataclass(slots=True)
class Canvas:
    """The boxes, circles and lines of a drawing so far, and the bounds that text must stay within."""

    bounds: Box
    boxes: list[Box] = field(default_factory=list)
    circles: Sequence[Circle] = ()
    segments: list[Segment] = field(default_factory=list)

    def first_free(self, boxes: Iterable[Box]) -> Box | None:
        """Choose the first box that covers nothing and mark it as occupied; None where there is none."""
        free = next((box for box in boxes if self.is_free(box)), None)
        if free is not None:
            self.boxes.append(free)
        return free

    def is_free(self, box: Box) -> bool:
        """Whether a box is within the bounds and covers nothing."""
        inside = box.left >= self.bounds.left and box.right <= self.bounds.right
        inside = inside and box.top >= self.bounds.top and box.bottom <= self.bounds.bottom
        return inside and not (
            any(_overlap(box, taken) for taken in self.boxes)
            or any(_covers(box, circle) for circle in self.circles)
            or any(crosses(segment, box) for segment in self.segments)
        )


def _overlap(a: Box, b: Box) -> bool:
    return a.left < b.right and b.left < a.right and a.top < b.bottom and b.top < a.bottom


def _covers(box: Box, circle: Circle) -> bool:
    """Whether a part of the square around a circle is in the box."""
    x, y, radius = circle
    return _overlap(box, Box(x - radius, y - radius, x + radius, y + radius))


def crosses(segment: Segment, box: Box) -> bool:
    """Whether a line passes through a box (Liang and Barsky 1984)."""
    x, y, across, down = segment.x1, segment.y1, segment.x2 - segment.x1, segment.y2 - segment.y1
    start, end = 0.0, 1.0
    edges = ((-across, x - box.left), (across, box.right - x), (-down, y - box.top), (down, box.bottom - y))
    for step, room in edges:
        if step == 0 and room < 0:
            return False
        if step < 0:
            start = max(start, room / step)
        elif step > 0:
            end = min(end, room / step)
    return start <= end


def leader(box: Box, circle: Circle) -> Segment:
    """The line from the nearest point of a box to the rim of a circle."""
    x = min(max(circle.x, box.left), box.right)
    y = min(max(circle.y, box.top), box.bottom)
    # 0 where the mark's centre lies in the box, which then needs no line
    away = hypot(x - circle.x, y - circle.y) or 1.0
    rim = circle.radius / away
    return Segment(x, y, circle.x + (x - circle.x) * rim, circle.y + (y - circle.y) * rim)
