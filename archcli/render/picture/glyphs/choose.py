"""Which glyph a node of a part gets, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archcli.measure.survey.anatomy.records import Figure, Node
from archcli.render.picture.glyphs.base import EndBar, Glyph, PartBox, Pill, Ring
from archcli.render.picture.glyphs.cores import CoreBox
from archcli.render.picture.glyphs.matrices import Trapezoid
from archcli.render.picture.glyphs.mixtures import ExpertGrid

Nodes = Mapping[str, Node]
BARS = {"input", "matrix", "output"}


def glyphs_of(nodes: tuple[Node, ...], hue: str) -> tuple[tuple[Node, ...], dict[str, Glyph]]:
    """Nodes that are drawn, and their glyphs: an output that only ends a product is its bar."""
    ends = {node.reads[0]: node for node in nodes if node.role == "output" and len(node.reads) == 1}
    known = {node.id: node for node in nodes}
    readers = {node.id: sum(node.id in other.reads for other in nodes) for node in nodes}
    ended = {slot for slot in ends if slot in known and known[slot].role == "matrix" and readers[slot] == 1}
    dropped = {ends[slot].id for slot in ended}
    kept = tuple(node for node in nodes if node.id not in dropped)
    return kept, {node.id: _glyph(node, known, hue, ended=node.id in ended) for node in kept}


def _glyph(node: Node, nodes: Nodes, hue: str, *, ended: bool) -> Glyph:
    own = node.hue if node.hue != "plain" else hue
    feed = _width(node.reads[0], nodes) if node.reads else None
    match node.role:
        case "matrix" | "router":
            return Trapezoid(node, own, feed, based=_needs_bar(node, nodes), ended=ended)
        case "core":
            return CoreBox(node, own, feed)
        case "experts":
            return ExpertGrid(node, own, feed)
        case "join":
            return Ring(node, own, feed)
        case "part":
            return PartBox(node, own, feed)
        case "input" | "output":
            return EndBar(node if node.width is not None else replace(node, width=feed), own, feed)
        case _:
            return Pill(node, own, feed)


def _width(slot: str, nodes: Nodes) -> Figure | None:
    """The features of an output: its own, or those of what it is computed from."""
    seen: set[str] = set()
    while slot in nodes and slot not in seen:
        seen.add(slot)
        node = nodes[slot]
        if node.width is not None:
            return node.width
        slot = node.reads[0] if node.reads else ""
    return None


def _needs_bar(node: Node, nodes: Nodes) -> bool:
    """Whether the bar of a product's inputs is drawn with it, as nothing below it is one."""
    slot = node.reads[0] if len(node.reads) == 1 else ""
    while slot in nodes and nodes[slot].role == "unary" and len(nodes[slot].reads) == 1:
        slot = nodes[slot].reads[0]
    return slot in nodes and nodes[slot].role not in BARS
