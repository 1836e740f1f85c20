"""Boxes of a drawing: panels (a part, to scale) and blocks (the wiring of a kind of layer)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from archcli.render.picture.labels import wrapped
from archcli.wings.drawing.drawn import DrawnNode, DrawnPart, Kind
from archcli.wings.drawing.picture.architecture.glyphs.base import (
    BADGE,
    Frame,
    Glyph,
    PartBox,
    Pill,
    Ring,
    Shapes,
    as_wide,
    badge,
)
from archcli.wings.drawing.picture.architecture.glyphs.choose import glyphs_of
from archcli.wings.drawing.picture.architecture.graph import Graph, graph_of
from archcli.wings.drawing.picture.architecture.graphs.places import Reach, Width
from archcli.wings.drawing.picture.architecture.numbers import concrete, least
from archcli.wings.drawing.picture.architecture.shapes import SvgShape
from archcli.wings.drawing.picture.architecture.style import (
    LEADING,
    SIZES,
    STATED,
    Word,
    Words,
    line_of,
    rect,
    text,
    width_of,
)

MARGIN = 12.0
HEADING, PLAIN_HEADING = 34.0, 28.0
"""Heights of the heading of a panel, which has a letter, and of a block."""
RADIUS = 8
BOLD = "label"
"""The size of facts that another model does not have."""
LARGEST = 0.1
"""The most units of a feature."""
FINER, STEPS = 0.93, 64
"""Ratio of a scale to the one tried before, and the number of tries."""


@dataclass(frozen=True)
class Drawn:
    """A panel or a block: the room that it needs, and its shapes in the room that it gets."""

    heading: Words
    right: Words
    lines: tuple[str, ...]
    graph: Graph
    letter: str = ""
    hue: str = "plain"
    path: str | None = None
    note: str = ""
    changed: frozenset[str] = frozenset()
    known: dict[float, float] = field(default_factory=dict)

    def widest(self, scale: float) -> list[Width]:
        """Widths, in features and units, at about this scale, margins included."""
        return [way.plus(Width(0, 2 * MARGIN)) for way in self.graph.placing(scale).widths(scale)]

    def natural(self, scale: float) -> tuple[float, float]:
        """The least width, and the height at that width."""
        if scale not in self.known:
            wide = max([way.at(scale) for way in self.widest(scale)] if self.graph.nodes else [0.0])
            self.known[scale] = max(wide, self._heading() + 2 * MARGIN)
        return self.known[scale], self.height(self.known[scale])

    def height(self, width: float) -> float:
        """Its height at a width."""
        return self._top(len(self._wrapped(width))) + self.graph.height + MARGIN

    def shapes(self, x: Any, y: float, width: Any, scale: Any, height: float = 0.0) -> Shapes:
        """The frame, the heading and the graph, from an upper left corner; as high as its row at least."""
        lines = self._wrapped(concrete(width))
        least = self.height(concrete(width))
        height = max(height, least) if self.graph.nodes else least
        frame = rect(x + 0.5, y + 0.5, width - 1, height - 1, f"{self._ground} s-hair thin", RADIUS)
        start = x + MARGIN + (2 * BADGE + 8 if self.letter else 0)
        ring = badge(x + MARGIN + BADGE, y + 20, self.letter, self.hue) if self.letter else ()
        base = y + (25 if self.letter else 21)
        heading = text(start, base, self.heading, self._size)
        right = (
            [text(x + width - MARGIN, base, self.right, ink="muted", anchor="end", title=self.note)]
            if self.right
            else []
        )
        texts = [
            text(x + MARGIN, y + HEADING + 11 + i * LEADING, line, size, "ink" if size == BOLD else "muted")
            for i, (line, size) in enumerate(lines)
        ]
        top = y + self._top(len(lines)) + (height - least) / 2
        body = self.graph.shapes(x + MARGIN, top, width - 2 * MARGIN, scale)
        shapes = (frame, *ring, heading, *right, *texts, *body)
        name = {"data_part": self.letter} if self.path is None else {"data_kind": self.path}
        return (SvgShape("g", name, shapes),)

    def _top(self, lines: int) -> float:
        """Units from its upper edge to the graph."""
        return (HEADING if self.letter else PLAIN_HEADING) + LEADING * lines + (6 if lines else 0)

    @property
    def _ground(self) -> str:
        return "panel" if self.letter else "paper"

    @property
    def _size(self) -> str:
        return "head" if self.letter else "label"

    def _heading(self) -> float:
        ring = 2 * BADGE + 8 if self.letter else 0
        return ring + width_of(self.heading, self._size) + 12 + width_of(self.right)

    def _wrapped(self, width: float) -> list[tuple[Words, str]]:
        """Facts as lines: joined while they fit, then broken; those that are changed apart, and bold."""
        room, joined = width - 2 * MARGIN, list[tuple[Words, str]]()
        for line in sorted(self.lines, key=lambda line: line in self.changed):
            size = BOLD if line in self.changed else "small"
            longer = line_of(joined[-1][0], " · ", line) if joined else line_of(line)
            if joined and joined[-1][1] == size and width_of(longer, size) <= room:
                joined[-1] = longer, size
            elif width_of(line, size) <= room:
                joined.append((line_of(line), size))
            else:
                pieces = wrapped(line, room / 1.03, SIZES[size][0], bold=size == BOLD)
                joined += [((Word(piece, unit=STATED),), size) for piece in pieces]
        return joined


def panel(part: DrawnPart, right: Words | None = None, note: str = "") -> Drawn:
    """A mixer or a network, to scale; on the right its parameters, or `right`."""
    nodes, glyphs = glyphs_of(part.nodes, part.hue)
    right = line_of(part.params, " params", unit="count") if right is None else right
    graph = graph_of(nodes, glyphs)
    return Drawn(line_of(part.title), right, part.lines, graph, part.letter, part.hue, note=note)


def wiring(kind: Kind, tints: Mapping[str, Any] = MappingProxyType({})) -> Drawn:
    """The wiring of a kind of layer; `tints`: opacity of parts, by letter."""
    spine = {*kind.spine}
    glyphs: dict[str, Glyph] = {}
    for node in kind.nodes:
        glyphs[node.id] = _wired(node, node.id in spine, tints.get(node.letter, 1))
    widest = max((glyph.needed() for glyph in glyphs.values() if type(glyph) is PartBox), default=0.0)
    glyphs = {
        slot: as_wide(glyph, widest) if type(glyph) is PartBox else glyph for slot, glyph in glyphs.items()
    }
    right = line_of(kind.times, " ×")
    return Drawn(line_of(kind.title), right, (), graph_of(kind.nodes, glyphs, kind.spine), path=kind.path)


def _wired(node: DrawnNode, stream: bool, tint: Any) -> Glyph:
    """The glyph of a node in a layer's wiring, not to scale."""
    match node.role:
        case "part" | "core" | "router" | "experts" | "matrix":
            return PartBox(node, node.hue, tint=tint)
        case "join":
            return Ring(node, node.hue)
        case "input" | "output":
            return Stub(node, node.hue) if stream else Pill(node, node.hue)
        case _:
            return Pill(node, node.hue)


@dataclass(frozen=True)
class Stub(Glyph):
    """An end of the residual stream: it comes from the layer below and goes on to the one above."""

    @property
    def height(self) -> float:
        """The line alone."""
        return 4.0

    def reach(self, scale: float) -> Reach:
        """The line alone."""
        return Reach()

    def shapes(self, frame: Frame, scale: Any) -> Shapes:
        """The end of the line."""
        return (SvgShape("path", {"d": f"M{frame.x:.1f} {frame.top:.1f}v4", "class_": "stream s-ink"}),)


def common_scale(rooms: Iterable[tuple[Drawn, float]], largest: float = LARGEST) -> Any:
    """The largest scale, in units per feature, at which each panel fits its width; may be traced."""
    pairs = [(drawn, room) for drawn, room in rooms if drawn.graph.nodes]
    # try scales one by one: at a smaller scale a text may no longer fit inside its bar, and needs room beside
    scales = (largest * FINER**step for step in range(STEPS))
    scale = next((scale for scale in scales if _fit(pairs, scale)), None)
    if scale is None:
        return largest * FINER**STEPS
    limits: list[Any] = [
        (room - way.fixed) / way.features
        for drawn, room in pairs
        for way in drawn.widest(scale)
        if concrete(way.features) and way.fixed < room
    ]
    return least(largest, *limits) if limits else largest


def _fit(pairs: list[tuple[Drawn, float]], scale: float) -> bool:
    return all(drawn.natural(scale)[0] <= room for drawn, room in pairs)
