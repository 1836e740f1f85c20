"""Anatomy, the content of a drawing: an architecture's layers, kinds of layer, and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from archcli.arith import Number

if TYPE_CHECKING:
    from archcli.measure.survey.joins import Joins

Hue = Literal["attention", "recurrent", "dense", "experts", "shared", "plain"]
"""The colour of a part, by what it is; `plain` are embeddings, the head and the residual stream."""
Role = Literal["input", "output", "matrix", "unary", "join", "core", "router", "experts", "part"]
"""What a node is: see `DrawnNode`."""


class Figure(NamedTuple):
    """A number of a drawing, and its address in the JSON of a command.

    path: the id of a row; or the path of a module, for the sum over the rows below it; empty for a total.
    Paths joined by + are added up.
    key: keys from there, joined by dots: `outputs.0.2`. Keys joined by * are multiplied, then those joined
    by + added up.
    """

    value: Number
    command: Literal["show", "params", "kvcache", "flops", "profile"]
    path: str
    key: str


class NumberedLine(str):
    """A line of text with figures, such as `32 heads`: `parts` are its words and its figures, in order.

    It is a str, so that the terminal's writer, which knows no figures, prints it too.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Figure, ...]

    def __new__(cls, *parts: str | Figure) -> Self:
        """The line that these words and figures make."""
        line = super().__new__(cls, "".join(map(_written, parts)))
        line.parts = parts
        return line


class Statement(str):
    """A line of what a model states, such as `RoPE θ 500,000`: its numbers are settings, not figures."""

    __slots__ = ()


def _written(part: str | Figure) -> str:
    return f"{part.value:,}" if type(part) is Figure else str(part)


class Piece(NamedTuple):
    """A piece of a bar, left to right: `width` features, `rotated` by RoPE, `cached` unchanged."""

    width: Figure
    label: str
    rotated: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Heads:
    """Heads of a bar: `count` heads of `width` features; `groups` key and value heads, if fewer."""

    count: Figure
    width: Figure
    groups: Figure | None = None


class MaskExample(NamedTuple):
    """An attention mask on a few tokens: `cells[i][j]` says whether query i reads key j."""

    kind: str
    window: Figure | None
    cells: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class HeldState:
    """A recurrent state of fixed size: `count` matrices of `rows` by `columns`, and the bytes of all."""

    count: Figure
    rows: Figure
    columns: Figure
    bytes: Figure | None


@dataclass(frozen=True)
class ExpertChoice:
    """Routed experts: each token runs `chosen` of `count`; with `groups` only experts of the best groups."""

    count: Figure
    chosen: Figure
    groups: Figure | None
    scores: str | None


@dataclass(frozen=True)
class DrawnNode:
    """A node of a part, or of a layer's wiring.

    role: `input` and `output` are the ends (a grey bar as wide as the stream); `matrix` a product with a
    weight (a trapezoid between the bars of its inputs and outputs); `unary` an operation on one tensor
    without a matrix (a pill: norm, convolution, activation); `join` a sum or product of tensors (a ring);
    `core` mixes tokens (a box: attention with its mask, a scan with its state); `router` and `experts` those
    of a mixture, also the expert that all tokens pass (hue `shared`, without a choice); `part` a whole mixer
    or network within a layer's wiring (a box with its letter).
    reads: ids of nodes, each once, in the order of the operation's inputs.
    rows: ids of its rows.
    width, params: features of its output; parameters of one layer.
    heads, pieces: how its output bar is divided; where both are there and `heads` has the width of all
    pieces, each head has the pieces.
    mask, held, cached, choice: of an attention, a recurrent state, a KV cache, routed experts.
    letter, hue: of the part that a node of role `part` stands for; the node's colour.
    lines: captions, `NumberedLine`s where they have figures.
    turned: the share of each head that RoPE rotates, where the whole bar is rotated.
    stacked: bars of equal products that are multiplied with each other, one over the other: gate and up.
    inner: the nodes of one expert.
    """

    id: str
    role: Role
    label: str
    reads: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    width: Figure | None = None
    params: Figure | None = None
    pieces: tuple[Piece, ...] = ()
    heads: Heads | None = None
    mask: MaskExample | None = None
    held: tuple[HeldState, ...] = ()
    cached: Figure | None = None
    choice: ExpertChoice | None = None
    letter: str = ""
    hue: Hue = "plain"
    lines: tuple[str, ...] = ()
    turned: Figure | None = None
    stacked: tuple[Piece, ...] = ()
    inner: tuple[DrawnNode, ...] = ()


@dataclass(frozen=True)
class DrawnPart:
    """A distinct mixer or network, drawn once: its nodes, in the order in which they run.

    letter: its name in the strip of layers.
    params: of one layer.
    lines: two or three facts, `32 heads on 8`.
    share: of the quantity shown, over all layers with this part; None where it has none, as a network has
    no cache, or where it is unknown.
    amount: of the quantity shown, printed beside the title in place of the parameters: FLOPs of one layer,
    bytes or seconds of all.
    """

    letter: str
    hue: Hue
    title: str
    params: Figure
    nodes: tuple[DrawnNode, ...]
    lines: tuple[str, ...] = ()
    share: Figure | None = None
    amount: Figure | None = None


@dataclass(frozen=True)
class Kind:
    """A distinct kind of layer: the wiring of its parts and norms.

    path: of its rows.
    times: the number of such layers.
    layers: their numbers in the stack.
    nodes: those of role `part` have the letters of its parts.
    spine: ids of the nodes on the residual stream, from the layer's input to its output.
    """

    path: str
    title: NumberedLine
    times: Figure
    layers: tuple[int, ...]
    nodes: tuple[DrawnNode, ...]
    spine: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A layer in the strip, or a run of `count` like ones; (hue, letter) of its mixers and networks."""

    first: int
    count: int
    mixers: tuple[tuple[Hue, str], ...]
    networks: tuple[tuple[Hue, str], ...]
    kind: str


class LayerRun(NamedTuple):
    """Layers under one brace: runs of these `lengths`, repeated `times`, as 5 local and 1 global layer."""

    first: int
    end: int
    label: str
    lengths: tuple[Figure, ...]
    times: Figure | None = None


@dataclass(frozen=True)
class Strip:
    """All layers of a stack.

    cells: its layers.
    runs: braces over them, which cover all.
    n_layers: their number.
    before, after: labels of boxes before and after the layers, from the input up.
    joins: lines that enter the layers and leave them besides the stream.
    beside: labels of boxes beside the layers, off the residual stream.
    rows: ids of the rows of a box before and of one after the layers, by its label.
    """

    title: str
    cells: tuple[Cell, ...]
    runs: tuple[LayerRun, ...]
    n_layers: Figure
    before: tuple[str, ...]
    after: tuple[str, ...]
    joins: Joins
    beside: tuple[str, ...] = ()
    rows: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


class Share(NamedTuple):
    """A component of the bars at the foot: its stored amount, and the part read for one token."""

    name: str
    hue: Hue
    stored: Figure
    read: Figure


@dataclass(frozen=True)
class Anatomy:
    """All that a drawing of one model says.

    settings: its context, positions and date: a second line below `subtitle`.

    headline: key figures, each with its caption and its form (`short`, `bytes`).
    strips: the stacks of layers.
    kinds, parts: distinct kinds of layer; mixers and networks.
    shares: bars of components, of the quantity `shown` (`params`, `flops`, `bytes`, `kv`, `time`).
    bars: the title of these bars, and in `foot` lines beside and below it.
    towers: encoders beside a language model.
    part: of a tower, its name among the parts of the model.
    """

    name: str
    subtitle: str
    headline: tuple[tuple[Figure, str, str], ...]
    strips: tuple[Strip, ...]
    kinds: tuple[Kind, ...]
    parts: tuple[DrawnPart, ...]
    shares: tuple[Share, ...]
    shown: str
    bars: str
    foot: tuple[str, ...] = ()
    towers: tuple[Anatomy, ...] = ()
    settings: str = ""
    part: str = ""

    @property
    def title(self) -> str:
        """Its name, of a tower that of its part: `Vision tower`."""
        return self.part.replace("_", " ").capitalize() or self.name
