"""Panels and blocks of a drawing: a part, to scale, and the wiring of a kind of layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archcli.measure.survey.anatomy.records import Figure, Kind, Node, Part
from archcli.render.picture.architecture.numbers import concrete, least
from archcli.render.picture.architecture.shapes import Shape
from archcli.render.picture.architecture.style import LEADING, Words, line_of, rect, text, width_of
from archcli.render.picture.glyphs.base import (
    BADGE,
    EndBar,
    Frame,
    Glyph,
    PartBox,
    Pill,
    Ring,
    Shapes,
    as_wide,
    badge,
)
from archcli.render.picture.glyphs.choose import glyphs_of
from archcli.render.picture.graphs.blocks import Blocks, blocks_of
from archcli.render.picture.graphs.layers import Layers, layered
from archcli.render.picture.graphs.places import Placing, Reach, Width
from archcli.render.picture.graphs.routes import Line, Routes, Sides
from archcli.render.picture.labels import wrapped

MARGIN = 12.0
HEADING = 34.0
RADIUS = 8


@dataclass(frozen=True)
class Graph:
    """Nodes in ranks with their glyphs: a drawing without a frame, whose height no figure changes."""

    nodes: tuple[Node, ...]
    glyphs: Mapping[str, Glyph]
    spine: tuple[str, ...] = ()

    @cached_property
    def layers(self) -> Layers:
        """The ranks."""
        inputs = [node.id for node in self.nodes if node.role == "input"]
        return layered({node.id: node.reads for node in self.nodes}, inputs, self.spine)

    @cached_property
    def blocks(self) -> Blocks:
        """What stands straight over one another."""
        return blocks_of(self.layers)

    @cached_property
    def routes(self) -> Routes:
        """The edges."""
        rings = {node.id for node in self.nodes if node.role == "join"}
        spans = {slot for slot, glyph in self.glyphs.items() if glyph.reach(1).spans}
        many = {slot for slot in spans if len(self.layers.below[slot]) > 1}
        heights = {slot: glyph.height for slot, glyph in self.glyphs.items()}
        touching = frozenset(
            rank for rank in range(1, len(self.layers.ranks)) if self._touches(self.layers.ranks[rank])
        )
        return Routes(self.layers, self.blocks, Sides(frozenset(rings), frozenset(many), heights, touching))

    def _touches(self, rank: Sequence[str]) -> bool:
        """Whether all of a rank follow on what they read without an arrow."""
        for slot in rank:
            reads = self.layers.below[slot]
            if any(self.blocks.of[read] != self.blocks.of[slot] for read in reads) or len(reads) > 1:
                return False
            if self.layers.slots[slot].passing:
                continue
            if not reads or self.layers.slots[reads[0]].passing or len(self.layers.above[reads[0]]) > 1:
                return False
            if not (self.glyphs[slot].bottom and self.glyphs[reads[0]].top):
                return False
        return True

    @cached_property
    def bands(self) -> tuple[dict[int, float], dict[int, float]]:
        """The upper and lower edge of each rank, from the upper edge of the drawing."""
        tops, lows, y = {}, {}, 0.0
        for rank in reversed(range(len(self.layers.ranks))):
            heights = [self.glyphs[slot].height for slot in self.layers.ranks[rank] if slot in self.glyphs]
            tops[rank], lows[rank] = y, y + max(heights, default=0.0)
            y = lows[rank] + (self.routes.channel(rank - 1) if rank else 0)
        return tops, lows

    @property
    def height(self) -> float:
        """From the upper edge of the last rank to the lower one of the first."""
        return self.bands[1][0] if self.nodes else 0.0

    def placing(self, scale: float) -> Placing:
        """The places, with the room that each slot takes at about this scale."""
        reach = {
            slot: self.glyphs[slot].reach(scale) if slot in self.glyphs else Reach()
            for slot in self.layers.slots
        }
        return Placing(self.layers, self.blocks, reach)

    def shapes(self, x: Any, y: float, width: Any, scale: Any) -> Shapes:
        """Edges, then signs over them."""
        if not self.nodes:
            return ()
        places = self.placing(concrete(scale)).places(x, x + width, scale)
        tops, lows = ({rank: y + edge for rank, edge in band.items()} for band in self.bands)
        edges = [_edge(line) for line in self.routes.lines(places, tops, lows)]
        signs = []
        for slot, glyph in self.glyphs.items():
            top = lows[self.layers.slots[slot].rank] - glyph.height
            frame = Frame(places.axis[slot], top, places.left[slot], places.right[slot])
            signs.extend(glyph.shapes(frame, scale))
        return (*edges, *signs)


def _edge(line: Line) -> Shape:
    (x, y), *rest = line.points
    steps, last = f"M{x:.1f} {y:.1f}", (x, y)
    for point in rest:
        steps += f"V{point[1]:.1f}" if point[0] is last[0] else f"H{point[0]:.1f}"
        last = point
    class_ = "stream s-ink" if line.stream else "edge s-line"
    return Shape("path", {"d": steps, "class_": class_, "marker_end": "url(#head)" if line.head else None})


@dataclass(frozen=True)
class Drawn:
    """A panel or a block: how much room it wants, and its shapes in the room that it gets."""

    heading: Words
    right: Words
    lines: tuple[str, ...]
    graph: Graph
    letter: str = ""
    hue: str = "plain"
    path: str | None = None

    def widest(self, scale: float) -> list[Width]:
        """Features and units that stand side by side at about this scale, margins included."""
        return [way.plus(Width(0, 2 * MARGIN)) for way in self.graph.placing(scale).widths(scale)]

    def natural(self, scale: float) -> tuple[float, float]:
        """The width and the height that it wants at least."""
        wide = max([way.at(scale) for way in self.widest(scale)] if self.graph.nodes else [0.0])
        width = max(wide, self._heading() + 2 * MARGIN)
        return width, self.height(width)

    def height(self, width: float) -> float:
        """Its height where it is so wide."""
        lines = len(self._wrapped(width))
        return HEADING + LEADING * lines + (4 if lines else 0) + self.graph.height + MARGIN

    def shapes(self, x: Any, y: float, width: Any, scale: Any, height: float = 0.0) -> Shapes:
        """The frame, the heading and the graph, from an upper left corner; the frame is so high at least."""
        lines = self._wrapped(concrete(width))
        own = self.height(concrete(width))
        height = max(height, own)
        frame = rect(x + 0.5, y + 0.5, width - 1, height - 1, f"{self._ground} s-hair thin", RADIUS)
        start = x + MARGIN + (2 * BADGE + 8 if self.letter else 0)
        ring = badge(x + MARGIN + BADGE, y + 20, self.letter, self.hue) if self.letter else ()
        size = "head" if self.letter else "label"
        heading = text(start, y + 25, self.heading, size)
        right = text(x + width - MARGIN, y + 25, self.right, ink="muted", anchor="end")
        words = [
            text(x + MARGIN, y + HEADING + 11 + i * LEADING, line, ink="muted")
            for i, line in enumerate(lines)
        ]
        top = y + HEADING + LEADING * len(lines) + (4 if lines else 0)
        body = self.graph.shapes(x + MARGIN, top + (height - own) / 2, width - 2 * MARGIN, scale)
        shapes = (frame, *ring, heading, right, *words, *body)
        return shapes if self.path is None else (Shape("g", {"data_kind": self.path}, shapes),)

    @property
    def _ground(self) -> str:
        return "panel" if self.letter else "paper"

    def _heading(self) -> float:
        ring = 2 * BADGE + 8 if self.letter else 0
        return ring + width_of(self.heading, "head" if self.letter else "label") + 12 + width_of(self.right)

    def _wrapped(self, width: float) -> list[str]:
        """Facts as lines: joined while they fit, then broken."""
        room, joined = width - 2 * MARGIN, list[str]()
        for line in self.lines:
            longer = f"{joined[-1]} · {line}" if joined else line
            if joined and width_of(longer) <= room:
                joined[-1] = longer
            else:
                joined.append(line)
        return [piece for line in joined for piece in wrapped(line, room / 1.03, 12.5)]


def panel(part: Part) -> Drawn:
    """A mixer or a network, to scale."""
    nodes, glyphs = glyphs_of(part.nodes, part.hue)
    right = line_of(part.params, unit="count")
    return Drawn(line_of(part.title), right, part.lines, Graph(nodes, glyphs), part.letter, part.hue)


def wiring(kind: Kind) -> Drawn:
    """How the parts and norms of a kind of layer are wired."""
    spine = {*kind.spine}
    glyphs: dict[str, Glyph] = {}
    for node in kind.nodes:
        glyphs[node.id] = _wired(node, node.id in spine)
    widest = max((glyph.needed() for glyph in glyphs.values() if type(glyph) is PartBox), default=0.0)
    glyphs = {
        slot: as_wide(glyph, widest) if type(glyph) is PartBox else glyph for slot, glyph in glyphs.items()
    }
    right = line_of(kind.times, " ×")
    return Drawn(line_of(kind.title), right, (), Graph(kind.nodes, glyphs, kind.spine), path=kind.path)


def _wired(node: Node, stream: bool) -> Glyph:
    """The sign of a node in a layer's wiring, which is not to scale."""
    match node.role:
        case "part" | "core" | "router" | "experts" | "matrix":
            return PartBox(node, node.hue)
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
        return (Shape("path", {"d": f"M{frame.x:.1f} {frame.top:.1f}v4", "class_": "stream s-ink"}),)


def common_scale(rooms: Iterable[tuple[Drawn, float]], most_: float = 0.1) -> Any:
    """Units a feature at which each of some panels fits in its width; of traced figures, traced."""
    pairs = [(drawn, room) for drawn, room in rooms if drawn.graph.nodes]
    low, high = 0.0, most_
    for _ in range(30):
        middle = (low + high) / 2
        fits = all(drawn.natural(middle)[0] <= room for drawn, room in pairs)
        low, high = (middle, high) if fits else (low, middle)
    limits: list[Any] = [
        (room - way.fixed) / way.features
        for drawn, room in pairs
        for way in drawn.widest(low)
        if concrete(way.features)
    ]
    return least(most_, *limits) if limits else most_


__all__ = ["Drawn", "EndBar", "Figure", "common_scale", "panel", "wiring"]
