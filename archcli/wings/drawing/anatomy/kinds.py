"""Kinds of layer: the wiring of parts and norms around the residual stream, per distinct layer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.graph.wired_tape import WiredRow
from archcli.wings.drawing.anatomy.draft import INPUT, OUTPUT, Draft, Drafts
from archcli.wings.drawing.anatomy.figures import shown
from archcli.wings.drawing.anatomy.folds import fold_asides
from archcli.wings.drawing.anatomy.part_shares import PartPlace
from archcli.wings.drawing.anatomy.parts import (
    PartDrawing,
    Sizes,
    finished,
    part_of,
    part_paths,
    signature,
)
from archcli.wings.drawing.anatomy.reading import Forward, Reader
from archcli.wings.drawing.anatomy.shares import hues_of_part
from archcli.wings.drawing.anatomy.titles import apart_line, box_lines, short_title
from archcli.wings.drawing.drawn import DrawnNode, DrawnPart, Figure, Hue, Kind, NumberedLine

RUNS_LISTED = 2
"""The most runs of layers in a title."""


Layers = Mapping[str, Sequence[WiredRow]]


class Kinds:
    """The kinds of layer of a forward and their parts, in order of appearance.

    forward: the traced pass.
    layers: rows of each distinct layer by its path.
    sizes: of the recurrent state of a layer that has one.
    letters: names of the parts, in turn.
    modules: modules of each layer by path.
    parts: distinct mixers and networks, by class and signature.
    places: where each part occurs, by its letter.
    hues: colours of rows.
    kinds: the result.
    """

    def __init__(
        self, forward: Forward, layers: Layers, sizes: Mapping[str, Sizes], letters: Iterator[str]
    ) -> None:
        self.forward, self.layers, self.sizes, self.letters = forward, layers, sizes, letters
        self.modules: dict[str, dict[str, Any]] = {path: {} for path in layers}
        for at, module in forward.modules.items():
            self._sort(at, module)
        self.parts: dict[Hashable, DrawnPart] = {}
        self.places: dict[str, list[PartPlace]] = {}
        self.hues: dict[str, Hue] = {}
        boxes = {path: dict(self._boxes(path, rows)) for path, rows in layers.items()}
        self._tell_apart()
        self.kinds = tuple(self._kind(path, rows, boxes[path]) for path, rows in layers.items())

    def _sort(self, at: str, module: Any) -> None:
        """Note a module under the layer that it is called in."""
        stem, dot, rest = at.partition("layers.")
        layer = stem + dot + rest.partition(".")[0]
        if layer in self.modules and at != layer:
            self.modules[layer][at] = module

    def _boxes(self, path: str, rows: Sequence[WiredRow]) -> Iterator[tuple[str, Draft]]:
        """The boxes of the parts of a distinct layer, by path."""
        boxes = ((at, self._box(path, at, rows)) for at in part_paths(self.modules[path]))
        yield from ((at, box) for at, box in boxes if box is not None)

    def _tell_apart(self) -> None:
        """Add to parts of equal text the fields in which `compare` finds their modules different."""
        alike: dict[Hashable, list[Hashable]] = {}
        for key, part in self.parts.items():
            alike.setdefault((part.title, part.lines), []).append(key)
        for keys in (keys for keys in alike.values() if len(keys) > 1):
            modules = [self.forward.modules[self.places[self.parts[key].letter][0].path] for key in keys]
            for i, key in enumerate(keys):
                line = apart_line(modules[i], modules[0 if i else 1])
                part = self.parts[key]
                self.parts[key] = replace(part, lines=(*part.lines, line) if line else part.lines)

    def _kind(self, path: str, rows: Sequence[WiredRow], boxes: Mapping[str, Draft]) -> Kind:
        """The kind of a distinct layer: a box for each part, and nodes for all other operations."""
        lines = {part.letter: box_lines(part.lines) for part in self.parts.values()}
        for box in boxes.values():
            box.lines = lines[box.letter]
        reader = Reader(self.forward, self.forward.entered[path], boxes, scales=True)
        drafts = reader.read(rows, self.forward.left[path])
        fold_asides(drafts)
        times = shown(rows[0], "times", rows[0].times)
        numbers = rows[0].layers or ()
        return Kind(path, layers_title(path, rows[0]), times, numbers, finished(drafts), spine_of(drafts))

    def _box(self, layer: str, at: str, rows: Sequence[WiredRow]) -> Draft | None:
        """The box of a part with its letter; None for a part without operations."""
        inside = [row for row in rows if row.path.startswith(f"{at}.")]
        if not inside:
            return None
        modules = self.modules[layer]
        key = type(modules[at]), signature(at, inside), self.forward.marks(inside)
        if key not in self.parts:
            drawing = PartDrawing(self.forward, at, modules, inside)
            self.parts[key] = part_of(next(self.letters), drawing, self.sizes.get(layer))
        part = self.parts[key]
        self.places.setdefault(part.letter, []).append(PartPlace(at, inside))
        first = part.params.path
        shared = [f"{at}{node.id.removeprefix(first)}" for node in part.nodes if node.hue == "shared"]
        self.hues |= hues_of_part(inside, part.hue, shared)
        label, is_open = short_title(modules[at]), any(_is_foreign(node) for node in part.nodes)
        box = Draft(at, "part", label, letter=part.letter, hue=part.hue)
        box.is_open = is_open
        return box


def _is_foreign(node: DrawnNode) -> bool:
    """Whether a node is an input other than the residual stream."""
    return node.role == "input" and node.id != INPUT


def spine_of(drafts: Drafts) -> tuple[str, ...]:
    """The nodes on the residual stream, from the input up."""
    # around the parts, as residual connections go; a layer without these has its stream through the parts
    return _way(drafts, avoided="part") or _way(drafts, avoided="") or (INPUT, OUTPUT)


def _way(drafts: Drafts, avoided: str) -> tuple[str, ...] | None:
    """A path from the input to the output without nodes of the avoided role; the first read of several."""
    leads: dict[str, str | None] = {INPUT: None}
    # in the order in which nodes run, so that the nodes that one reads come before it
    for node, draft in drafts.items():
        if draft.role == avoided or node == INPUT:
            continue
        before = next((port.node for port in draft.reads if port.node in leads), None)
        if before is not None:
            leads[node] = before
    if OUTPUT not in leads:
        return None
    way: list[str] = []
    place: str | None = OUTPUT
    while place is not None:
        way.append(place)
        place = leads[place]
    return tuple(reversed(way))


def layers_title(path: str, row: WiredRow) -> NumberedLine:
    """The layers of a kind in words: `Layers 3–60`, `Layers 3, 7 … 47`, `Encoder layers 0–11`."""
    numbers = row.layers or ()
    stack = path.partition("layers.")[0].rstrip(".").replace("_", " ")
    word = f"{stack} layer".lstrip() + ("s " if len(numbers) > 1 else " ")
    parts: list[str | Figure] = []
    runs = _runs(numbers)
    for start, end in runs if len(runs) <= RUNS_LISTED + 1 else [*runs[:RUNS_LISTED], runs[-1]]:
        parts += [", " if parts else "", shown(row, f"layers.{start}", numbers[start])]
        if end > start:
            parts += ["–" if end > start + 1 else ", ", shown(row, f"layers.{end}", numbers[end])]
    if len(runs) > RUNS_LISTED + 1:
        last = max(i for i, part in enumerate(parts) if part == ", " and i > 0)
        last = len(parts) - 2 if runs[-1][0] == runs[-1][1] else len(parts) - 4
        parts[last] = " … "
    line = [part for part in parts if part]
    return NumberedLine(word[:1].upper() + word[1:], *line)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last index of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for place, number in enumerate(numbers):
        if runs and number == numbers[place - 1] + 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs
