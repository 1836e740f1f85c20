"""The glyph of a product with a weight: a trapezoid between the bars of its inputs and its outputs, to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.measure.survey.anatomy.records import Figure, Piece
from archcli.render.picture.architecture.numbers import concrete
from archcli.render.picture.architecture.shapes import Many
from archcli.render.picture.architecture.style import LEADING, Words, line_of, path, rect, text, width_of
from archcli.render.picture.glyphs.base import BAR, BESIDE, Frame, Glyph, Shapes
from archcli.render.picture.graphs.places import Reach, Span

SLOPE = 30.0
"""The height of a trapezoid."""
HELD = 4.0
"""Between a bar and the frame that says that it is cached."""
MOST_TICKS = 32
LEAST_TICK = 3.0
"""Heads are cut out of a bar where there are few, each at least so wide."""
INSIDE = 8.0


@dataclass(frozen=True)
class Trapezoid(Glyph):
    """A product with a weight.

    based: whether the bar of its inputs is drawn. ended: its output is the stream, a grey bar with its number.
    bars: how many products of one input it stands for, as the gate and the other half of a SwiGLU.
    """

    bottom: bool = True
    top: bool = True
    based: bool = False
    ended: bool = False
    bars: int = 1

    @property
    def height(self) -> float:
        """The trapezoid between its bars, and the frame of what is cached."""
        bars = self.bars * (BAR + 2) - 2 + (BAR if self.based else 0)
        return SLOPE + bars + (HELD if self.held else 0)

    @property
    def held(self) -> bool:
        """Whether its output or a piece of it is cached."""
        return self.node.cached is not None or any(piece.cached for piece in self.node.pieces)

    @property
    def wide(self) -> Any:
        """The features of its wider side."""
        out, fed = self.out, self.fed
        return out if concrete(out) >= concrete(fed) else fed

    @property
    def out(self) -> Any:
        """Features of its outputs."""
        return 0 if self.node.width is None else self.node.width.value

    @property
    def fed(self) -> Any:
        """Features of its inputs."""
        return self.out if self.feed is None else self.feed.value

    @property
    def name(self) -> Words:
        """Its name and its numbers: heads, pieces, or the width."""
        label, heads = self.node.label, self.node.heads
        widths = [piece.width for piece in self.node.pieces]
        if self.ended:
            return line_of(label)
        if heads is not None and len(widths) > 1 and self._per_head():
            return line_of(f"{label} ", heads.count, " × (", _sum(widths), ")")
        if heads is not None:
            return line_of(f"{label} ", heads.count, " × ", heads.width)
        if len(widths) > 1:
            return line_of(f"{label} ", _sum(widths))
        return line_of(f"{label} ", self.node.width) if self.node.width is not None else line_of(label)

    def _per_head(self) -> bool:
        """Whether the pieces are those of a head, not of the whole bar."""
        return sum(concrete(piece.width.value) for piece in self.node.pieces) < concrete(self.out)

    @property
    def cache(self) -> Words:
        """The bytes that a token adds to the cache."""
        return line_of() if self.node.cached is None else line_of(self.node.cached, unit="bytes")

    def lines(self, scale: float) -> tuple[Words, ...]:
        """What is written in it or beside it: in it there is room for one line."""
        known = tuple(line for line in (self.name, self.cache) if line)
        return known if len(known) == 1 or not self._fits(_dotted(known), scale) else (_dotted(known),)

    def inside(self, scale: float) -> bool:
        """Whether the text stands in the trapezoid."""
        lines = self.lines(scale)
        return len(lines) == 1 and self._fits(lines[0], scale)

    def _fits(self, line: Words, scale: float) -> bool:
        across = (concrete(self.out) + concrete(self.fed)) / 2 * scale
        # at the height of the text the narrower side has been left behind by two thirds
        return across * 0.92 >= width_of(line) + INSIDE

    def reach(self, scale: float) -> Reach:
        """Half of the wider bar on each side, and on the right the text that is not inside."""
        features, frame = self.wide / 2, HELD if self.held else 0.0
        left = Span(features, frame, 3)
        if self.inside(scale):
            return Reach(left, Span(features, frame, 3))
        room = BESIDE + max(map(width_of, self.beside(scale)), default=0)
        return Reach(left, Span(features, frame + room, 3 + room))

    def beside(self, scale: float) -> tuple[Words, ...]:
        """The lines on its right."""
        ended = () if self.node.width is None or not self.ended else (line_of(self.node.width),)
        lines = () if self.inside(scale) else self.lines(scale)
        return (*ended, *lines) if not self.ended else ended or lines

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The trapezoid, its bars, heads, pieces, frame and text."""
        size = concrete(scale)
        top = frame.top + (HELD if self.held else 0)
        low = top + self.bars * (BAR + 2) - 2
        out, fed = self.out * scale / 2, self.fed * scale / 2
        x = frame.x
        slope = path(
            f"M{x - out:.1f} {low:.1f}H{x + out:.1f}L{x + fed:.1f} {low + SLOPE:.1f}H{x - fed:.1f}Z",
            f"tint-{self.hue} s-{self.hue} thin",
            self.title(),
        )
        base = (
            (rect(x - fed, low + SLOPE, fed * 2, BAR, f"solid-{self.hue}", None, self.feed),)
            if self.based and self.feed is not None
            else ()
        )
        bars = tuple(self._bar(x - out, top + i * (BAR + 2), scale) for i in range(self.bars))
        cuts = self._cuts(x - out, top, scale) if self.bars == 1 else ()
        pieces = self._pieces(x - out, top, scale)
        return (slope, *base, *bars, *cuts, *pieces, *self._text(frame, low, size))

    def _bar(self, left: Any, top: float, scale: Any) -> Any:
        hue = "plain" if self.ended else self.hue
        return rect(left, top, self.out * scale, BAR, f"solid-{hue}", None, self.node.width, self.title())

    def _cuts(self, left: Any, top: float, scale: Any) -> Shapes:
        """Lines between heads, wider ones between groups that share their keys."""
        heads = self.node.heads
        if heads is None or concrete(heads.count.value) > MOST_TICKS or self.ended:
            return ()
        if concrete(self.out) / max(1.0, concrete(heads.count.value)) * concrete(scale) < LEAST_TICK:
            return ()
        cuts = [_cut(heads.count.value, self.out, left, top, scale, 0.8)]
        if heads.groups is not None:
            cuts.append(_cut(heads.groups.value, self.out, left, top, scale, 2.4))
        return tuple(cuts)

    def _pieces(self, left: Any, top: float, scale: Any) -> Shapes:
        """Hatched where a piece is rotated, cut between pieces, framed where it is cached."""
        shapes: list[Any] = []
        whole = self.node.pieces or ()
        count = 1 if self.node.heads is None or not self._per_head() else self.node.heads.count.value
        at: Any = left
        start: Any = None
        for piece in whole:
            width = piece.width.value * count * scale
            shapes += self._piece(piece, at, top, width, first=at is left)
            if piece.cached:
                start = at if start is None else start
                end = at + width
            at = at + width
        if self.node.cached is not None and start is None:
            start, end = left, left + self.out * scale
        if start is not None:
            shapes.append(
                rect(
                    start - HELD + 0.75,
                    top - HELD + 0.75,
                    end - start + 2 * HELD - 1.5,
                    BAR + 2 * HELD - 1.5,
                    "held s-ink",
                    3,
                    self.node.cached,
                    "cached",
                )
            )
        return tuple(shapes)

    @staticmethod
    def _piece(piece: Piece, left: Any, top: float, width: Any, *, first: bool) -> Shapes:
        title = f"{piece.label}, rotated" if piece.rotated else piece.label
        hatched = (rect(left, top, width, BAR, "hatched", title=title),) if piece.rotated else ()
        cut = () if first else (rect(left - 0.8, top, 1.6, BAR, "panel"),)
        return (*hatched, *cut)

    def _text(self, frame: Frame, low: float, scale: float) -> Shapes:
        """The lines in the trapezoid or beside it."""
        if self.inside(scale) and not self.ended:
            return (text(frame.x, low + SLOPE / 2 + 4.5, self.lines(scale)[0], anchor="middle"),)
        inside = (
            (text(frame.x, low + SLOPE / 2 + 4.5, self.lines(scale)[0], anchor="middle"),)
            if self.inside(scale)
            else ()
        )
        beside = self.beside(scale)
        start = frame.x + frame.right - max(map(width_of, beside), default=0)
        first = low + 1 if self.ended else low + SLOPE / 2 + 4.5 - (len(beside) - 1) * LEADING / 2
        ink = "muted" if self.ended else "ink"
        return (
            *inside,
            *(text(start, first + i * LEADING, line, ink=ink) for i, line in enumerate(beside)),
        )


def _cut(count: Any, width: Any, left: Any, top: float, scale: Any, thick: float) -> Many:
    """Lines that cut a bar into so many equal pieces."""
    step = width * scale / count
    return Many(count - 1, lambda i: rect(left + (i + 1) * step - thick / 2, top, thick, BAR, "panel"))


def _sum(widths: list[Figure]) -> Words:
    """Widths joined by plus signs."""
    return line_of(*(piece for width in widths for piece in (" + ", width)))[1:]


def _dotted(lines: tuple[Words, ...]) -> Words:
    """Several lines as one."""
    return line_of(*(piece for line in lines for piece in (" · ", line)))[1:]
