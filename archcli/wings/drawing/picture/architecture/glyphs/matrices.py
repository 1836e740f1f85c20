"""The glyph of a product with a weight: a trapezoid between the bars of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.wings.drawing.drawn import Figure, Piece
from archcli.wings.drawing.picture.architecture.glyphs.base import BAR, BESIDE, RAISED, Frame, Glyph, Shapes
from archcli.wings.drawing.picture.architecture.graphs.places import Reach, SideRoom
from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.shapes import Many
from archcli.wings.drawing.picture.architecture.style import (
    LEADING,
    Words,
    line_of,
    path,
    rect,
    text,
    width_of,
)

SLOPE = 27.0
"""The height of a trapezoid."""
HELD = 4.0
"""Units between a bar and the dashed frame of a cached one."""
MOST_TICKS, LEAST_TICK = 32, 3.0
"""The most heads that are drawn as cuts of a bar, and the least width of one."""
INSIDE, SLANTS = 8.0, (0.22, 0.42)
"""Room around a text in a trapezoid, and the share of its slant within the height of one line and of two."""
FLARE, LONG = 3, 60.0
"""Output / input of a trapezoid, and units of a text, from which on text is better above the bar."""
CUT, GROUP_CUT = 0.8, 2.4
NARROWEST, FEW_LINES = 3.0, 2


@dataclass(frozen=True)
class Trapezoid(Glyph):
    """A product with a weight.

    based: whether the bar of its inputs is drawn.
    ended: its output is the residual stream, a grey bar with a number.
    short: the longest line of a text above the bar; 0 for a text inside or beside the trapezoid.
    """

    bottom: bool = True
    top: bool = True
    based: bool = False
    ended: bool = False
    short: float = 0.0

    @property
    def height(self) -> float:
        """The height of trapezoid, bars, frame of a cached bar, and text above."""
        bars = self.bars * (BAR + 2) - 2 + (BAR if self.based else 0)
        return self.slope + bars + self.frame + (len(self.above) * LEADING if self.crowded else 0)

    @property
    def bars(self) -> int:
        """The number of equal products that it stands for: two for gate and up."""
        return max(1, len(self.node.stacked))

    @property
    def frame(self) -> float:
        """Room above the bar for the frame of a cached bar, and for the number of the stream."""
        cached = self.node.cached is not None or any(piece.cached for piece in self.node.pieces)
        return HELD if cached or self.ended else 0.0

    @property
    def out(self) -> Any:
        """Features of its outputs."""
        return 0 if self.node.width is None else self.node.width.value

    @property
    def fed(self) -> Any:
        """Features of its inputs."""
        return self.out if self.feed is None else self.feed.value

    @property
    def numbers(self) -> Words:
        """Its heads and pieces, or its width."""
        heads, widths = self.node.heads, [piece.width for piece in self.node.pieces]
        if self.ended or (heads is None and self.node.width is None):
            return line_of()
        if heads is not None and len(widths) > 1 and self._per_head():
            return line_of(heads.count, " × (", _sum(widths), ")")
        if heads is not None:
            return line_of(heads.count, " × ", heads.width)
        return _sum(widths) if len(widths) > 1 else line_of(self.node.width or "")

    @property
    def name(self) -> Words:
        """Its name and its numbers in one line: `q 32 × 128`."""
        label = "router" if self.node.role == "router" else self.node.label
        if not label:
            return self.numbers
        return line_of(f"{label} ", self.numbers) if self.numbers else line_of(label)

    @property
    def cache(self) -> tuple[Words, ...]:
        """The bytes that a token adds to the cache."""
        return () if self.node.cached is None else (line_of(self.node.cached, " a token", unit="bytes"),)

    @property
    def above(self) -> tuple[Words, ...]:
        """Its text above the bar."""
        if not self.name:
            return self.cache
        lines = (
            (self.name,) if width_of(self.name) <= self.short else (line_of(self.node.label), self.numbers)
        )
        return (*(line for line in lines if line), *self.cache)

    @property
    def crowded(self) -> bool:
        """Whether its text stands above its bar."""
        return self.short > 0

    @property
    def flared(self) -> bool:
        """Whether it widens so much that its text is better above the bar."""
        wide = concrete(self.out) > FLARE * concrete(self.fed) and width_of(self.name) > LONG
        return wide and self.node.heads is not None

    def _per_head(self) -> bool:
        """Whether the pieces are those of a head, not of the whole bar."""
        return sum(concrete(piece.width.value) for piece in self.node.pieces) < concrete(self.out)

    def within(self, scale: float) -> tuple[Words, ...]:
        """The lines inside the trapezoid: all text, the name, or nothing, by the available room."""
        whole = (_dotted((self.name, *self.cache)), *self.facts[:1])
        if self._fits(whole, scale):
            return whole
        return (self.name,) if not self.crowded and self._fits((self.name,), scale) else ()

    def _fits(self, lines: tuple[Words, ...], scale: float) -> bool:
        out, fed = concrete(self.out) * scale, concrete(self.fed) * scale
        room = (out + fed) / 2 - SLANTS[len(lines) - 1] * abs(out - fed) - INSIDE
        return 0 < max(map(width_of, lines)) <= room

    @property
    def facts(self) -> tuple[Words, ...]:
        """Further captions, such as how gate and up are joined."""
        router = (line_of(self.node.label),) if self.node.role == "router" else ()
        return (*router, *map(line_of, self.node.lines))

    @property
    def slope(self) -> float:
        """The height of the trapezoid: more for two lines inside it, or several beside it."""
        lines = 0 if self.ended or self.crowded else 1 + len(self.cache) + len(self.facts)
        return max(SLOPE + 12 * min(1, len(self.facts)), LEADING * lines - BAR)

    def right_lines(self, scale: float) -> tuple[Words, ...]:
        """The lines to the right: text that is not inside."""
        if self.ended:
            return () if self.node.width is None else (line_of(self.node.width),)
        if self.crowded:
            return ()
        within = self.within(scale)
        if within == (self.name,):
            return (*self.cache, *self.facts)
        return () if within else tuple(line for line in (self.name, *self.cache, *self.facts) if line)

    def rise(self, scale: float) -> float:
        """The units that edges begin lower, as a text inside leaves the room above the bar empty."""
        return len(self.above) * LEADING if self.crowded and self.within(scale) else 0.0

    def reach(self, scale: float) -> Reach:
        """Half of the wider bar on each side, and on the right the text beside it."""
        out, fed = self.out, self.fed
        features = (out if concrete(out) >= concrete(fed) else fed) / 2
        least = NARROWEST
        if self.crowded and not self.within(scale):
            least = max(map(width_of, self.above), default=0.0) / 2
        left = SideRoom(features, self.frame, least)
        labels = self.right_lines(scale)
        if not labels:
            return Reach(left, left)
        room = BESIDE + max(map(width_of, labels))
        return Reach(left, SideRoom(features, self.frame + room, least + room))

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The trapezoid, its bars, heads, pieces, frame and text."""
        top = frame.top + self.frame + (len(self.above) * LEADING if self.crowded else 0)
        low = top + self.bars * (BAR + 2) - 2
        out, fed, x = self.out * scale / 2, self.fed * scale / 2, frame.x
        slope = path(
            f"M{x - out:.1f} {low:.1f}H{x + out:.1f}L{x + fed:.1f} {low + self.slope:.1f}H{x - fed:.1f}Z",
            f"tint-{self.hue} s-{self.hue} thin",
            self.title(),
        )
        bars = [self._bar(x - out, top + i * (BAR + 2), scale) for i in range(self.bars)]
        if self.based and self.feed is not None:
            bars.append(rect(x - fed, low + self.slope, fed * 2, BAR, f"solid-{self.hue}", None, self.feed))
        left = x - out
        parts = (
            *self._turned(left, top, scale),
            *self._cuts(left, top, scale),
            *self._pieces(left, top, scale),
        )
        return (slope, *bars, *parts, *self._text(frame, low, concrete(scale), out))

    def _bar(self, left: Any, top: float, scale: Any) -> Any:
        hue = "plain" if self.ended else self.hue
        return rect(left, top, self.out * scale, BAR, f"solid-{hue}", None, self.node.width, self.title())

    def _ticked(self, scale: float) -> bool:
        """Whether heads are cut out of the bar."""
        heads = self.node.heads
        if heads is None or self.ended or self.bars > 1 or concrete(heads.count.value) > MOST_TICKS:
            return False
        return concrete(heads.width.value) * scale >= LEAST_TICK

    def _cuts(self, left: Any, top: float, scale: Any) -> Shapes:
        """Lines between heads, wider ones between groups that share their keys."""
        heads = self.node.heads
        if heads is None or not self._ticked(concrete(scale)):
            return ()
        cuts = [_cut(heads.count.value, self.out, left, top, scale, CUT)]
        if heads.groups is not None:
            cuts.append(_cut(heads.groups.value, self.out, left, top, scale, GROUP_CUT))
        return tuple(cuts)

    def _turned(self, left: Any, top: float, scale: Any) -> Shapes:
        """The hatched part of each head, or of the whole bar, that RoPE rotates."""
        turned, heads = self.node.turned, self.node.heads
        if turned is None or any(piece.rotated for piece in self.node.pieces):
            return ()
        whole = self.out * scale
        if heads is None or concrete(turned.value) >= 1 or not self._ticked(concrete(scale)):
            return (rect(left, top, whole * turned.value, BAR, "hatched", title="rotated by RoPE"),)
        step = whole / heads.count.value
        return (
            Many(
                heads.count.value, lambda i: rect(left + i * step, top, step * turned.value, BAR, "hatched")
            ),
        )

    def _pieces(self, left: Any, top: float, scale: Any) -> Shapes:
        """Pieces: hatched if rotated, framed if cached, with cuts between them."""
        count = self.node.heads.count.value if self.node.heads is not None and self._per_head() else 1
        shapes: list[Any] = []
        ends = [left]
        for piece in self.node.pieces:
            width = piece.width.value * count * scale
            shapes += _piece(piece, ends[-1], top, width, first=len(ends) == 1)
            ends.append(ends[-1] + width)
        kept = [i for i, piece in enumerate(self.node.pieces) if piece.cached]
        if kept:
            shapes.append(self._held(ends[kept[0]], ends[kept[-1] + 1], top))
        elif self.node.cached is not None:
            shapes.append(self._held(left, left + self.out * scale, top))
        return tuple(shapes)

    def _held(self, start: Any, end: Any, top: float) -> Any:
        """The dashed frame of a cached bar."""
        off = HELD - 0.75
        width, height = end - start + 2 * off, BAR + 2 * off
        return rect(start - off, top - off, width, height, "held s-ink", 3, None, "cached")

    def _text(self, frame: Frame, low: float, scale: float, out: Any) -> Shapes:
        """The line in the trapezoid, and those above or beside it."""
        middle = low + self.slope / 2 + 4.5
        within, labels = self.within(scale), self.right_lines(scale)
        upper = middle - (len(within) - 1) * LEADING / 2
        inside = tuple(
            text(frame.x, upper + i * LEADING, line, anchor="middle") for i, line in enumerate(within)
        )
        if self.ended:
            return (
                *inside,
                *(text(frame.x + out + BESIDE, low - RAISED, line, ink="muted") for line in labels),
            )
        if self.crowded and not within:
            return tuple(
                text(frame.x, frame.top + 11.5 + i * LEADING, line, anchor="middle")
                for i, line in enumerate(self.above)
            )
        start = frame.x + frame.right - max(map(width_of, labels), default=0)
        first = middle - (len(labels) - 1) * LEADING / 2 - (BAR / 2 if len(labels) > FEW_LINES else 0)
        return (*inside, *(text(start, first + i * LEADING, line) for i, line in enumerate(labels)))


def _piece(piece: Piece, left: Any, top: float, width: Any, *, first: bool) -> Shapes:
    title = f"{piece.label}, rotated" if piece.rotated else piece.label
    hatched = (rect(left, top, width, BAR, "hatched", title=title),) if piece.rotated else ()
    return hatched if first else (*hatched, rect(left - CUT, top, 2 * CUT, BAR, "panel"))


def _cut(count: Any, width: Any, left: Any, top: float, scale: Any, thick: float) -> Many:
    """Lines that cut a bar into `count` equal pieces."""
    step = width * scale / count
    return Many(count - 1, lambda i: rect(left + (i + 1) * step - thick / 2, top, thick, BAR, "panel"))


def _sum(widths: list[Figure]) -> Words:
    """Widths joined by plus signs."""
    return line_of(*(piece for width in widths for piece in (" + ", width)))[1:]


def _dotted(lines: tuple[Words, ...]) -> Words:
    """Several lines as one."""
    return line_of(*(piece for line in lines if line for piece in (" · ", line)))[1:]
