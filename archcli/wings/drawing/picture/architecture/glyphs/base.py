"""Glyph: a sign with a place for its text, and the plain ones: bars at the ends, pills, rings, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archcli.wings.drawing.drawn import DrawnNode, Figure
from archcli.wings.drawing.picture.architecture.graphs.places import Reach, SideRoom
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import (
    LEADING,
    Words,
    line_of,
    rect,
    text,
    width_of,
)

BAR = 8.0
"""The height of a bar."""
BESIDE = 6.0
"""Between a glyph and the text beside it."""
PILL, RING, BADGE = 20.0, 8.0, 9.0
"""The height of a pill, and the radii of rings around signs and letters."""
PADDING = 10.0
DROP, RAISED = 5.0, 2.0
"""How far the number of an input reaches below its bar, and that of an output stands above its foot."""
LINE, NARROW = 15.0, 84.0
"""From line to line in a pill, and the width at which its text is broken."""
GROWTH = 6.0
"""Room for a digit more, where a drawing is drawn anew for other figures."""
Shapes = tuple[SvgShape | Many, ...]


class Frame(NamedTuple):
    """Where a glyph is drawn: its axis, its upper edge, and how far it reaches to the left and the right."""

    x: Any
    top: float
    left: Any
    right: Any

    def middle(self) -> Any:
        """Midway between the left and the right edge."""
        return self.x + (self.right - self.left) / 2


@dataclass(frozen=True)
class Glyph:
    """The sign of a node. `feed` is the width of what it reads, `hue` that of its part.

    bottom, top: whether it may touch a bar below or above without an arrow between.
    """

    node: DrawnNode
    hue: str
    feed: Figure | None = None
    bottom: bool = False
    top: bool = False
    least: float = 0.0

    @property
    def height(self) -> float:
        """Units from its upper to its lower edge; no figure changes them."""
        return PILL

    def reach(self, scale: float) -> Reach:
        """How far it reaches to the left and right of its axis, at about this scale."""
        half = self.least / 2
        return Reach(SideRoom(0, half), SideRoom(0, half))

    def rise(self, scale: float) -> float:
        """Units from its upper edge to where its edges start."""
        return 0.0

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """Its shapes in a frame."""
        return ()

    def title(self) -> str:
        """The tooltip: what it stands for."""
        return ", ".join((self.node.label, *self.node.rows))


@dataclass(frozen=True)
class EndBar(Glyph):
    """A grey bar as wide as the stream, its number beside it: clear of what widens above or below it."""

    bottom: bool = True
    top: bool = True

    @property
    def height(self) -> float:
        """The bar, and of an input what its number reaches below it."""
        return BAR if self.node.reads else BAR + DROP

    @property
    def origin(self) -> Words:
        """Where it comes from, unless from the layer's stream, and its features."""
        name = [f"{self.node.label} "] if self.node.label else []
        return line_of(*name) if self.node.width is None else line_of(*name, self.node.width)

    @property
    def features(self) -> Any:
        """Its width."""
        return 0 if self.node.width is None else self.node.width.value

    def reach(self, scale: float) -> Reach:
        """Half of the bar to the left; to the right also the text."""
        room = BESIDE + width_of(self.origin)
        return Reach(SideRoom(self.features / 2), SideRoom(self.features / 2, room))

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The bar and its number."""
        half = self.features * scale / 2
        bar = rect(
            frame.x - half, frame.top, half * 2, BAR, "solid-plain", None, self.node.width, self.title()
        )
        base = frame.top + (BAR - RAISED if self.node.reads else BAR + DROP - 1)
        label = text(frame.x + half + BESIDE, base, self.origin, ink="muted")
        return (bar, label) if self.origin else (bar,)


@dataclass(frozen=True)
class Pill(Glyph):
    """An operation without a matrix: a norm, a convolution, an activation.

    shared: over how many branches it stands, each of which has its own place.
    """

    bottom: bool = True
    top: bool = True
    shared: int = 1

    @property
    def height(self) -> float:
        """As high as its lines."""
        return PILL + LINE * (len(self.lines) - 1)

    @property
    def lines(self) -> list[str]:
        """Its text: a long one in lines, broken at commas."""
        room = NARROW * self.shared if self.shared > 1 else NARROW
        joined = list[str]()
        for piece in self.node.label.split(", "):
            if joined and width_of(f"{joined[-1]}, {piece}") <= room:
                joined[-1] += f", {piece}"
            else:
                joined.append(piece)
        return joined

    def reach(self, scale: float) -> Reach:
        """As wide as its text, or as its share of it."""
        needed = max(map(width_of, self.lines)) + 2 * PADDING
        half = max(self.least, needed / self.shared, 2 * PADDING) / 2
        return Reach(SideRoom(0, half), SideRoom(0, half), spans=True)

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The pill, its text in the middle."""
        left, height = frame.x - frame.left, self.height
        pill = rect(
            left,
            frame.top + 0.5,
            frame.left + frame.right,
            height - 1,
            "paper s-line thin",
            9,
            None,
            self.title(),
        )
        first = frame.top + 14.5
        texts = (
            text(frame.middle(), first + i * LINE, line, anchor="middle") for i, line in enumerate(self.lines)
        )
        return pill, *texts


@dataclass(frozen=True)
class Ring(Glyph):
    """A sum or a product of tensors."""

    @property
    def height(self) -> float:
        """The ring itself."""
        return 2 * RING

    def reach(self, scale: float) -> Reach:
        """The ring itself, and room for the arrows at its sides."""
        return Reach(SideRoom(0, RING + 6), SideRoom(0, RING + 6))

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The ring with its sign, of lines: text would stand in the ring's middle in no font."""
        x, y = frame.x, frame.top + RING
        place = {"cx": x, "cy": y, "r": RING - 0.5, "class_": "paper s-ink edge-ring"}
        ring = SvgShape("circle", place, title=self.title())
        product = {"×", "*", "multiply", "product"} & {self.node.label.lower()}
        if product:
            sign = f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"
        else:
            sign = f"M{x - 3.5:.1f} {y:.1f}h7m-3.5 -3.5v7"
        return ring, SvgShape("path", {"d": sign, "class_": "s-ink edge"})


@dataclass(frozen=True)
class PartBox(Glyph):
    """A mixer or a network within a layer: a box in its hue with its letter, its name and a few facts."""

    bottom: bool = True
    top: bool = True
    tint: Any = 1
    """The opacity of its tint."""

    @property
    def height(self) -> float:
        """A line for the name and one for each fact."""
        return 24.0 + LEADING * len(self.facts)

    @property
    def facts(self) -> tuple[str, ...]:
        """What stands under its name."""
        return self.node.lines[:3]

    def needed(self) -> float:
        """The width that its text takes."""
        lines = [width_of(self.node.label, "label"), *map(width_of, self.facts)]
        return max(lines) + self.indent + PADDING + GROWTH

    @property
    def indent(self) -> float:
        """Units from its left edge to its text."""
        return 8 + 2 * BADGE + 7 if self.node.letter else PADDING

    def reach(self, scale: float) -> Reach:
        """As wide as its text, or as its like."""
        half = max(self.least, self.needed()) / 2
        return Reach(SideRoom(0, half), SideRoom(0, half), spans=True)

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The box, the letter in a ring, the name and the facts."""
        left = frame.x - frame.left
        box = rect(
            left + 0.5,
            frame.top + 0.5,
            frame.left + frame.right - 1,
            self.height - 1,
            f"tint-{self.hue} s-{self.hue} thin",
            6,
            title=self.title(),
        )
        # to a hundredth, as other attributes are to a tenth
        box = replace(box, attributes={**box.attributes, "fill_opacity": f"{self.tint:.2f}"})
        name = text(left + self.indent, frame.top + 17, self.node.label, "label")
        facts = lines_at(left + self.indent, frame.top + 17 + LEADING, self.facts)
        middle = frame.top + self.height / 2
        badge_ = badge(left + 8 + BADGE, middle, self.node.letter, self.hue) if self.node.letter else ()
        return (box, *badge_, name, *facts)


def badge(x: Any, y: float, letter: str, hue: str) -> Shapes:
    """A letter in a ring, which names a part; V1 of a tower in a longer one."""
    wide, look = width_of(letter, "label") / 2 + 3, f"paper s-{hue} edge-ring"
    ring = SvgShape("circle", {"cx": x, "cy": y, "r": BADGE, "class_": look})
    if wide > BADGE + 1:
        ring = rect(x - wide, y - BADGE, 2 * wide, 2 * BADGE, look, BADGE)
    return ring, text(x, y + 4.5, letter, "label", anchor="middle")


def lines_at(x: Any, y: float, lines: Sequence[str | Words], ink: str = "ink") -> Shapes:
    """Lines of small text, one under the other."""
    return tuple(text(x, y + i * LEADING, line, ink=ink) for i, line in enumerate(lines))


def as_wide(glyph: Glyph, least: float) -> Glyph:
    """A glyph that is at least so wide."""
    return replace(glyph, least=least)
