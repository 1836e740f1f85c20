"""Parts: each distinct mixer and network of a model, with its nodes and a letter."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from archcli.arith import Shape
from archcli.graph.count_tape import settings_of
from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.show import layer_params
from archcli.wings.drawing.anatomy.draft import Draft, Drafts
from archcli.wings.drawing.anatomy.figures import LAYER_PARAMS, added, cached_figure, output_figure, shown
from archcli.wings.drawing.anatomy.folds import fold
from archcli.wings.drawing.anatomy.reading import Forward, Reader
from archcli.wings.drawing.anatomy.roles import role_of
from archcli.wings.drawing.anatomy.titles import MASKS, facts_of, hue_of, short_name, title_of
from archcli.wings.drawing.drawn import (
    DrawnNode,
    DrawnPart,
    ExpertChoice,
    Figure,
    HeldState,
    Hue,
    MaskExample,
    Statement,
)

SCORES = {"softmax_after": "softmax"}
"""Names of routers' scores: a softmax before or after the choice of experts is called softmax."""
PART_FAMILIES = ("attention", "cross_attention", "ffn")
"""Families of modules that are parts."""
Sizes = tuple[Figure, Figure, Figure]
"""The number, rows and columns of the matrices of a state."""


def letter_of(number: int) -> str:
    """The letter of a part by its number: A to Z, then AA, AB."""
    first, last = divmod(number, 26)
    return (letter_of(first - 1) if first else "") + chr(ord("A") + last)


def part_paths(modules: Mapping[str, Any]) -> dict[str, Any]:
    """The mixers and networks among the modules of a layer, by path, outermost first.

    A mixer of several mixers is no part: its branches are.
    """
    parts: dict[str, Any] = {}
    for path, module in modules.items():
        if module.family not in PART_FAMILIES or any(path.startswith(f"{outer}.") for outer in parts):
            continue
        inside = (inner for below, inner in modules.items() if below.startswith(f"{path}."))
        if module.family == "attention" and any(inner.family == "attention" for inner in inside):
            continue
        parts[path] = module
    return parts


def signature(path: str, rows: Iterable[WiredRow]) -> Hashable:
    """A key, equal for parts that are drawn as one: their rows without the path."""
    return tuple(
        (row.id[len(path) :], *_settings(row), *_widths(row), tuple(row.weights.items()))
        for row in rows
        # asides are not drawn, such as constants of a layer (decay of its heads)
        if role_of(row) != "aside"
    )


def _settings(row: WiredRow) -> tuple[Any, ...]:
    # repr, as masks compare by identity
    kinds = tuple(state.kind for state in row.states)
    return type(row.op), repr(settings_of(row.op)), row.experts, kinds


def _widths(row: WiredRow) -> tuple[Shape, ...]:
    """Shapes without batch and tokens, which differ between an encoder and its decoder."""
    return tuple(shape[2:] or shape[-1:] for shape in (*row.inputs, *row.outputs))


class PartDrawing:
    """The nodes of one part, from the rows of its first layer."""

    def __init__(
        self, forward: Forward, path: str, modules: Mapping[str, Any], rows: Sequence[WiredRow]
    ) -> None:
        self.forward, self.path, self.rows = forward, path, rows
        self.module, self.modules = modules[path], modules

    def nodes(self, state: Sizes | None) -> tuple[DrawnNode, ...]:
        """The nodes, in the order in which they run; `state`: sizes of its recurrent state."""
        boxes = dict(self._boxes())
        reader = Reader(self.forward, self.forward.entered[self.path], boxes)
        drafts = reader.read(self.rows, self.forward.left[self.path])
        for draft in drafts.values():
            if draft.role == "core":
                describe_core(draft, drafts)
            if draft.role == "core" and state is not None and draft.rows[-1] in reader.states:
                draft.held = (HeldState(*state, state_bytes(reader.states)),)
        fold(drafts)
        for path, box in boxes.items():
            if box.id in drafts:
                self._open(path, box, drafts)
        return finished(drafts)

    def _boxes(self) -> Iterator[tuple[str, Draft]]:
        """Boxes of routed experts, and of shared experts."""
        inside = [path for path in self.modules if path.startswith(f"{self.path}.")]
        routed: list[str] = []
        for path in inside:
            rows = self._below(path)
            within = any(path.startswith(f"{outer}.") for outer in routed)
            if rows and not within and all(row.experts for row in rows):
                routed.append(path)
                yield path, _box(path, "experts")
        parents = {path.rpartition(".")[0] for path in routed}
        for path in inside:
            is_network = self.modules[path].family == "ffn" and path not in routed
            if is_network and path.rpartition(".")[0] in parents and self._below(path):
                yield path, _box(path, "shared")

    def _below(self, path: str) -> list[WiredRow]:
        """The rows of a module within the part."""
        return [row for row in self.rows if row.path.startswith(f"{path}.")]

    def _open(self, path: str, box: Draft, drafts: Drafts) -> None:
        """The nodes within an expert, and how it is chosen."""
        rows = self._below(path)
        within = Reader(self.forward, self.forward.entered[path]).read(rows, self.forward.left[path])
        box.inner = tuple(_colored(node, box.hue) for node in finished(fold(within)))
        box.width = within["output"].width
        router = next((of for of in drafts.sources(box) if of.role == "router"), None)
        counted = next((row for row in rows if row.experts), None)
        if router is not None and counted is not None and counted.experts is not None:
            count = shown(counted, "experts", counted.experts.n_experts)
            box.choice = _choice(router.rows[-1], count)
            router.label = box.choice.scores or router.label


def _choice(route: WiredRow, count: Figure) -> ExpertChoice:
    """The choice of a router: chosen and all experts, groups, scores."""
    traits = route.op.traits(*route.inputs)
    groups, scores = traits.router_groups, traits.router_scores or ""
    of_groups = None if groups is None else shown(route, "router_groups", groups)
    return ExpertChoice(count, output_figure(route), of_groups, SCORES.get(scores, scores) or None)


def _box(path: str, hue: Hue) -> Draft:
    return Draft(path, "experts", path.rpartition(".")[2].replace("_", " "), hue=hue)


def describe_core(core: Draft, drafts: Drafts) -> None:
    """Add to a core its mask, the groups of its heads, and the names of its queries, keys and values."""
    row = core.rows[-1]
    mask = row.op.traits(*row.inputs).mask
    if mask is not None:
        window = None if mask.window is None else shown(row, "mask.window", mask.window)
        core.mask = MaskExample(MASKS.get(mask.kind, mask.kind), window, row.op.seen())
    _name_slots(core, row, drafts)
    headed = [bar for bar in map(drafts.bar, drafts.sources(core)) if bar is not None and bar.heads]
    fewest = min((of.heads.count for of in headed if of.heads), key=lambda count: count.value, default=None)
    for of in headed:
        if of.heads and fewest is not None and of.heads.count.value > fewest.value:
            of.heads = replace(of.heads, groups=fewest)


def _name_slots(core: Draft, row: WiredRow, drafts: Drafts) -> None:
    """Name bars and their pieces by the core's inputs: q, k, v."""
    named: set[tuple[str, int]] = set()
    for slot, value in zip(row.op.slots, row.reads or (), strict=False):
        for port in core.ports.get(value, ()):
            of = drafts[port.node]
            bar = drafts.bar(of)
            if bar is None:
                continue
            piece = port.piece if bar is of else drafts.piece_behind(of)
            if piece is None or not bar.pieces:
                # one bar for several inputs: keys that are values too
                bar.slots.append(slot)
                bar.label = ", ".join(bar.slots)
            else:
                both = f"{bar.names[piece]}, {slot}" if (bar.id, piece) in named else slot
                bar.names[piece] = both
                named.add((bar.id, piece))


def state_bytes(rows: Sequence[WiredRow]) -> Figure:
    """Bytes of the recurrent states of one layer."""
    first, *others = map(cached_figure, rows)
    return reduce(added, others, first)


def finished(drafts: Drafts) -> tuple[DrawnNode, ...]:
    """The nodes of drafts, with their parameters in one layer."""
    return tuple(
        draft.node(None if draft.role == "input" else params_of(draft.rows)) for draft in drafts.values()
    )


def params_of(rows: Sequence[WiredRow]) -> Figure | None:
    """Parameters of rows in one layer; None where they have none."""
    # a dict by id: a row may occur twice
    weighty = list({row.id: row for row in rows if row.weights}.values())
    if not weighty:
        return None
    total = sum(layer_params(row) for row in weighty)
    return Figure(total, "show", "+".join(row.id for row in weighty), LAYER_PARAMS)


def part_of(letter: str, drawing: PartDrawing, state: Sizes | None) -> DrawnPart:
    """A part under its letter."""
    nodes = drawing.nodes(state)
    hue = hue_of(drawing.module, nodes)
    params = Figure(sum(map(layer_params, drawing.rows)), "show", drawing.path, LAYER_PARAMS)
    colored = tuple(_colored(node, hue) for node in nodes)
    lines = (*facts_of(nodes, hue), *_statements(drawing, nodes))
    return DrawnPart(letter, hue, title_of(drawing.module), params, colored, lines)


def _statements(drawing: PartDrawing, nodes: Sequence[DrawnNode]) -> Iterator[str]:
    """What a part states beside the lines of its nodes: RoPE in one line, zero experts, biases."""
    said = {line for node in nodes for line in node.lines}
    marks = [mark for mark in drawing.forward.marks(drawing.rows) if mark not in said]
    if marks:
        yield Statement(", ".join(marks))
    products = {row.path: "bias" in row.weights for row in drawing.rows if role_of(row) == "matrix"}
    biased = [short_name(path) for path, with_bias in products.items() if with_bias]
    if biased:
        yield "biases" if all(products.values()) else f"biases of {', '.join(dict.fromkeys(biased))}"


def _colored(node: DrawnNode, hue: Hue) -> DrawnNode:
    """A node in the hue of its part, if it has none of its own and is no end of the stream."""
    plain = node.hue == "plain" and node.role not in ("input", "output")
    return replace(node, hue=hue) if plain else node
