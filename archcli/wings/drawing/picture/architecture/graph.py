"""A graph of glyphs: nodes in ranks from the input upwards, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from archcli.wings.drawing.drawn import DrawnNode
from archcli.wings.drawing.picture.architecture.glyphs.base import Frame, Glyph, PartBox, Pill, Shapes
from archcli.wings.drawing.picture.architecture.glyphs.matrices import Trapezoid
from archcli.wings.drawing.picture.architecture.graphs.blocks import Blocks, blocks_of
from archcli.wings.drawing.picture.architecture.graphs.layers import Layers, layered
from archcli.wings.drawing.picture.architecture.graphs.places import Placing, Reach
from archcli.wings.drawing.picture.architecture.graphs.routes import EdgeLine, Routes, Sides
from archcli.wings.drawing.picture.architecture.numbers import concrete
from archcli.wings.drawing.picture.architecture.shapes import Many, SvgShape
from archcli.wings.drawing.picture.architecture.style import width_of

TOUCH = 3.0
"""Units between a pill and the bar that it stands on."""
CROWD, CROWDED, SHORT, FLARED = 3, 240.0, 46.0, 400.0
"""3 products in a rank with over 240 units of text have it above their bars, in lines of 46 units.

FLARED: the line length in units of a flared product."""


@dataclass(frozen=True)
class Graph:
    """Nodes in ranks with their glyphs.

    nodes, glyphs: what is drawn.
    layers: ranks, and the order in each.
    spine: nodes of the residual stream.
    shared: runs of neighbouring slots that have one common pill.
    """

    nodes: tuple[DrawnNode, ...]
    glyphs: Mapping[str, Glyph]
    layers: Layers
    spine: tuple[str, ...] = ()
    shared: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def blocks(self) -> Blocks:
        """Blocks: nodes in one vertical line."""
        return blocks_of(self.layers, self.rings, {node.id for node in self.nodes if node.role == "core"})

    @property
    def rings(self) -> frozenset[str]:
        """Sums and products."""
        return frozenset(node.id for node in self.nodes if node.role == "join")

    @cached_property
    def routes(self) -> Routes:
        """The edges."""
        spans = {slot for slot, glyph in self.glyphs.items() if glyph.reach(1).spans}
        many = {slot for slot in spans if len(self.layers.below[slot]) > 1}
        starts = {slot: glyph.height for slot, glyph in self.glyphs.items()}
        touching = {
            rank: self._distance(self.layers.ranks[rank])
            for rank in range(1, len(self.layers.ranks))
            if self._touches(self.layers.ranks[rank])
        }
        return Routes(self.layers, self.blocks, Sides(self.rings, frozenset(many), starts, touching))

    def _distance(self, rank: Sequence[str]) -> float:
        """Units between two ranks without an arrow: 0 between a trapezoid and its bar."""
        lows = [low for slot in rank for low in self.layers.below[slot]]
        return 0.0 if self._among({Trapezoid}, rank) and not self._among({Pill}, lows) else TOUCH

    def _among(self, kinds: set[type[Glyph]], slots: Sequence[str]) -> bool:
        """Whether any of the slots has a glyph of these kinds."""
        return not kinds.isdisjoint(type(self.glyphs[slot]) for slot in slots if slot in self.glyphs)

    def _touches(self, rank: Sequence[str]) -> bool:
        """Whether all nodes of a rank stand on their inputs, without an arrow."""
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
            # a box stands only on a pill, and only a pill on a box
            if self._among({PartBox}, [slot, *reads]) and not self._among({Pill}, [slot, *reads]):
                return False
        return True

    @cached_property
    def bands(self) -> tuple[dict[int, float], dict[int, float]]:
        """The y of the upper and lower edge of each rank, from the top of the drawing."""
        tops, lows, y = {}, {}, 0.0
        for rank in reversed(range(len(self.layers.ranks))):
            heights = [self.glyphs[slot].height for slot in self.layers.ranks[rank] if slot in self.glyphs]
            tops[rank], lows[rank] = y, y + max(heights, default=0.0)
            y = lows[rank] + (self.routes.channel(rank - 1) if rank else 0)
        return tops, lows

    @property
    def height(self) -> float:
        """The height from the last rank's top to the first rank's bottom."""
        return self.bands[1][0] if self.nodes else 0.0

    def placing(self, scale: float) -> Placing:
        """The horizontal places, for the widths of slots at about this scale."""
        reach = {
            slot: self.glyphs[slot].reach(scale) if slot in self.glyphs else Reach()
            for slot in self.layers.slots
        }
        return Placing(self.layers, self.blocks, reach)

    def shapes(self, x: Any, y: float, width: Any, scale: Any) -> Shapes:
        """Edges first, then glyphs, which are drawn over them."""
        if not self.nodes:
            return ()
        size = concrete(scale)
        places = self.placing(size).places(x, x + width, scale)
        tops, lows = ({rank: y + edge for rank, edge in band.items()} for band in self.bands)
        starts = {slot: glyph.height - glyph.rise(size) for slot, glyph in self.glyphs.items()}
        lowered = frozenset(slot for slot, glyph in self.glyphs.items() if glyph.rise(size))
        routes = replace(self.routes, sides=replace(self.routes.sides, starts=starts, lowered=lowered))
        lines = sorted(routes.lines(places, tops, lows), key=lambda line: line.stream)
        edges = [shape for line in lines for shape in _edge(line)]
        inside = {slot for run in self.shared for slot in run[1:]}
        last = {run[0]: run[-1] for run in self.shared}
        signs: list[SvgShape | Many] = []
        for slot, glyph in self.glyphs.items():
            if slot in inside:
                continue
            top = lows[self.layers.slots[slot].rank] - glyph.height
            end = last.get(slot, slot)
            right = places.axis[end] + places.right[end] - places.axis[slot]
            signs.extend(glyph.shapes(Frame(places.axis[slot], top, places.left[slot], right), scale))
        return (*edges, *signs)


def graph_of(nodes: tuple[DrawnNode, ...], glyphs: Mapping[str, Glyph], spine: tuple[str, ...] = ()) -> Graph:
    """A graph, with text above crowded products, and equal neighbouring pills joined."""
    plain = Graph(nodes, glyphs, _layers(nodes, spine), spine)
    changed, shared = dict(glyphs), list[tuple[str, ...]]()
    for rank in plain.layers.ranks:
        crowd = [slot for slot in rank if type(glyphs.get(slot)) is Trapezoid]
        texts = [
            max(map(width_of, glyph.right_lines(0.0)), default=0.0) for glyph in _trapezoids(crowd, glyphs)
        ]
        crowded = len(crowd) >= CROWD and sum(texts) > CROWDED
        for glyph in _trapezoids(crowd, glyphs):
            if crowded or glyph.flared:
                changed[glyph.node.id] = replace(glyph, short=SHORT if crowded else FLARED)
        for run in _like(plain, rank):
            rows = tuple(row for slot in run for row in glyphs[slot].node.rows)
            changed |= {slot: _sharing(glyphs[slot], len(run), rows) for slot in run}
            shared.append(run)
    return Graph(nodes, changed, plain.layers, spine, tuple(shared))


def _layers(nodes: tuple[DrawnNode, ...], spine: tuple[str, ...]) -> Layers:
    # another input (encoder output, lent keys) stands right under its reader, not at the bottom
    inputs = [node.id for node in nodes if node.role == "input" and (not spine or node.id in spine)]
    # the shared expert stands in the rank of the routed ones
    late = [node.id for node in nodes if node.role == "experts" and node.choice is None]
    return layered({node.id: node.reads for node in nodes}, inputs, spine, late)


def _trapezoids(slots: Sequence[str], glyphs: Mapping[str, Glyph]) -> Iterator[Trapezoid]:
    for slot in slots:
        match glyphs[slot]:
            case Trapezoid(ended=False) as glyph:
                yield glyph


def _like(graph: Graph, rank: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Runs of neighbouring pills with the same text and readers, as norms of q and k."""

    def sign(slot: str) -> tuple[str, ...]:
        glyph, layers = graph.glyphs.get(slot), graph.layers
        if type(glyph) is not Pill or len(layers.below[slot]) != 1 or slot in graph.spine:
            return (slot,)
        return (glyph.node.label, *_readers(graph, slot))

    for _, run in groupby(rank, sign):
        slots = tuple(run)
        if len(slots) > 1:
            yield slots


def _readers(graph: Graph, slot: str) -> list[str]:
    """The final readers of a slot, past pills and lanes on its branch."""
    readers = graph.layers.above[slot]
    while len(readers) == 1 and _is_way(graph, readers[0]):
        readers = graph.layers.above[readers[0]]
    return readers


def _is_way(graph: Graph, slot: str) -> bool:
    """Whether a slot only leads on to its reader: a pill with one input, or a passing edge."""
    pill = type(graph.glyphs.get(slot)) is Pill and len(graph.layers.below[slot]) == 1
    return pill or graph.layers.slots[slot].passing


def _sharing(glyph: Glyph, count: int, rows: tuple[str, ...]) -> Glyph:
    match glyph:
        case Pill():
            return replace(glyph, shared=count, node=replace(glyph.node, rows=rows))
        case _:
            return glyph


def _edge(line: EdgeLine) -> Shapes:
    (x, y), *rest = line.points
    steps, last = f"M{x:.1f} {y:.1f}", (x, y)
    for point in rest:
        steps += f"V{point[1]:.1f}" if point[0] is last[0] else f"H{point[0]:.1f}"
        last = point
    class_ = "stream s-ink" if line.stream else "edge s-line"
    head = "url(#head)" if line.head else None
    edge = SvgShape("path", {"d": steps, "class_": class_, "marker_end": head})
    if not line.branch:
        return (edge,)
    return edge, SvgShape("circle", {"cx": x, "cy": line.points[1][1], "r": 3, "class_": "ink"})
