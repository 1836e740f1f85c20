"""Choose the glyph of each node of a part: trapezoid, pill, ring, box or bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archcli.wings.drawing.drawn import DrawnNode, Figure
from archcli.wings.drawing.picture.architecture.glyphs.base import EndBar, Glyph, PartBox, Pill, Ring
from archcli.wings.drawing.picture.architecture.glyphs.cores import CoreBox
from archcli.wings.drawing.picture.architecture.glyphs.matrices import Trapezoid
from archcli.wings.drawing.picture.architecture.glyphs.mixtures import Expert, ExpertGrid

Nodes = Mapping[str, DrawnNode]
BARS = {"input", "matrix", "output"}
SIGNS: dict[str, type[Glyph]] = {"core": CoreBox, "experts": ExpertGrid, "join": Ring, "part": PartBox}


def glyphs_of(nodes: tuple[DrawnNode, ...], hue: str) -> tuple[tuple[DrawnNode, ...], dict[str, Glyph]]:
    """The nodes to draw, and their glyphs."""
    nodes = _split(nodes)
    ends = {node.reads[0]: node for node in nodes if node.role == "output" and len(node.reads) == 1}
    known = {node.id: node for node in nodes}
    readers = {node.id: sum(node.id in reader.reads for reader in nodes) for node in nodes}
    ended = {slot for slot in ends if slot in known and known[slot].role == "matrix" and readers[slot] == 1}
    # the bar of such a product is the output: the output node is not drawn again
    dropped = {ends[slot].id for slot in ended}
    kept = tuple(node for node in nodes if node.id not in dropped)
    return kept, {node.id: _glyph(node, known, hue, ended=node.id in ended) for node in kept}


def _glyph(node: DrawnNode, nodes: Nodes, hue: str, *, ended: bool) -> Glyph:
    """The glyph of a node; `ended`: it is a product whose bar is the part's output."""
    ink = node.hue if node.hue != "plain" else hue
    fed = [slot for slot in node.reads if slot in nodes and nodes[slot].role != "router"]
    feed = _width(fed[0], nodes) if fed else None
    match node.role:
        case "matrix" | "router":
            return Trapezoid(node, ink, feed, based=_needs_bar(node, nodes), ended=ended)
        case "input" | "output":
            return EndBar(node if node.width is not None else replace(node, width=feed), ink, feed)
        case "experts" if node.choice is None:
            return Expert(node, ink, feed)
        case role:
            return SIGNS.get(role, Pill)(node, ink, feed)


def _width(slot: str, nodes: Nodes) -> Figure | None:
    """The width of a node's output, else of the nodes that it reads, back to the first with a width."""
    seen: set[str] = set()
    while slot in nodes and slot not in seen:
        seen.add(slot)
        node = nodes[slot]
        if node.width is not None:
            return node.width
        slot = node.reads[0] if node.reads else ""
    return None


def _needs_bar(node: DrawnNode, nodes: Nodes) -> bool:
    """Whether a product is drawn with a bar of its input: nothing below it ends in a bar."""
    slot = node.reads[0] if len(node.reads) == 1 else ""
    while slot in nodes and nodes[slot].role == "unary" and len(nodes[slot].reads) == 1:
        slot = nodes[slot].reads[0]
    return slot in nodes and nodes[slot].role not in BARS


def _split(nodes: tuple[DrawnNode, ...]) -> tuple[DrawnNode, ...]:
    """Split pills on the branches of a core after their common steps: `convolution, SiLU` | `L2 norm`."""
    steps = {
        node.id: node.label.split(", ")
        for core in nodes
        if core.role == "core"
        for node in nodes
        if node.id in core.reads and node.role == "unary" and len(node.reads) == 1
    }
    split: list[DrawnNode] = []
    for node in nodes:
        labels = steps.get(node.id, [])
        alike = [_alike(labels, step) for slot, step in steps.items() if slot != node.id]
        length = min((same for same in alike if same), default=0)
        if 0 < length < len(labels):
            first = f"{node.id}:{length}"
            split.append(replace(node, id=first, label=", ".join(labels[:length])))
            split.append(
                replace(node, label=", ".join(labels[length:]), reads=(first,), held=(), cached=None)
            )
        else:
            split.append(node)
    return tuple(split)


def _alike(first: list[str], second: list[str]) -> int:
    """The length of the common prefix of two lists."""
    same = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        same += 1
    return same
