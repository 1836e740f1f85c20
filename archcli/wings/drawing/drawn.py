"""Anatomy: an architecture as layers, distinct kinds of layer and their parts; what a drawing says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from archcli.arith import Number

Hue = Literal["attention", "recurrent", "dense", "experts", "shared", "plain"]
"""What a part is, and with it its colour: `plain` are tables, the head and the residual stream."""
Role = Literal["input", "output", "matrix", "unary", "join", "core", "router", "experts", "part"]
"""What a node is: see `DrawnNode`."""


class Figure(NamedTuple):
    """A number that is drawn, and where the JSON of a command has it.

    `path` is the id of a row, or the path of a module, which stands for the sum over the rows below it; empty
    for a total; paths joined by + are added up. `key` are the keys from there, joined by dots: `outputs.0.2`;
    keys joined by * are multiplied, and then those joined by + are added up.
    """

    value: Number
    command: Literal["show", "params", "kvcache", "flops", "profile"]
    path: str
    key: str


class NumberedLine(str):
    """A line of text that names figures: `parts` are its words and its figures, in order.

    It reads as plain text, so that a writer that knows nothing of figures writes it as well.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Figure, ...]

    def __new__(cls, *parts: str | Figure) -> Self:
        """The line that these words and figures make."""
        line = super().__new__(cls, "".join(map(_written, parts)))
        line.parts = parts
        return line


def _written(part: str | Figure) -> str:
    return f"{part.value:,}" if type(part) is Figure else str(part)


class Piece(NamedTuple):
    """A piece of a bar, from left to right: of `width` features, `rotated` by RoPE, `cached` as it is."""

    width: Figure
    label: str
    rotated: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Heads:
    """How a bar is divided into heads: `count` of them of `width` features, `groups` that share keys."""

    count: Figure
    width: Figure
    groups: Figure | None = None


class MaskExample(NamedTuple):
    """Which keys a query reads, for a few tokens: the rows of a small matrix, made by the mask itself."""

    kind: str
    window: Figure | None
    cells: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class HeldState:
    """A state that does not grow: `count` matrices of `rows` by `columns`, and the bytes of all of them."""

    count: Figure
    rows: Figure
    columns: Figure
    bytes: Figure | None


@dataclass(frozen=True)
class ExpertChoice:
    """Routed experts: each token runs `chosen` of `count`, in `groups` of which it may choose from some."""

    count: Figure
    chosen: Figure
    groups: Figure | None
    scores: str | None


@dataclass(frozen=True)
class DrawnNode:
    """Something that is drawn of a part or of a layer's wiring.

    role: `input` and `output` are the ends (a grey bar as wide as the stream); `matrix` a product with a
    weight (a trapezoid between the bars of its inputs and outputs); `unary` an operation on one tensor
    without a matrix (a pill: norm, convolution, activation); `join` a sum or product of tensors (a ring);
    `core` mixes tokens (a box: attention with its mask, a scan with its state); `router` and `experts` those
    of a mixture, also the expert that all tokens pass (hue `shared`, without a choice); `part` a whole mixer
    or network within a layer's wiring (a box with its letter).
    reads: ids of nodes, each once, in the order of the operation's inputs. rows: ids of its rows.
    heads, pieces: how its output bar is divided; where both are there and `heads` has the width of all
    pieces, each head has the pieces. turned: the share of each head that RoPE rotates, where it is the whole
    bar that is rotated. stacked: bars of equal products that meet, one over the other: gate and up.
    inner: the nodes of one expert. lines: `NumberedLine`s where they name figures.
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

    params: those of one layer. share: what all layers with it have of the quantity shown; None where it has
    none, as a network has no cache, or where it is not told apart. amount: what of that quantity is printed
    beside the title where it is not the parameters: the FLOPs of one layer, bytes and seconds of all.
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
    """A distinct layer: how its parts and norms are wired, and which layers of its stack are like it.

    `path` is that of its rows. Nodes of role `part` have the letters of its parts. `spine` are the ids of
    the nodes on the residual stream, from the layer's input to its output.
    """

    path: str
    title: str
    times: Figure
    layers: tuple[int, ...]
    nodes: tuple[DrawnNode, ...]
    spine: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A layer in the strip, or a run of `count` alike ones; (hue, letter) of its mixers and networks."""

    first: int
    count: int
    mixers: tuple[tuple[Hue, str], ...]
    networks: tuple[tuple[Hue, str], ...]
    kind: str


class LayerRun(NamedTuple):
    """Layers under a brace: runs of these `lengths`, repeated `times`; the braces of a strip cover it."""

    first: int
    end: int
    label: str
    lengths: tuple[Figure, ...]
    times: Figure | None = None


@dataclass(frozen=True)
class Strip:
    """All layers of a stack.

    cells: its layers. runs: of alike layers. n_layers: their number.
    before, after: labels of boxes before and after the layers, from the input up. beside: of those apart.
    """

    title: str
    cells: tuple[Cell, ...]
    runs: tuple[LayerRun, ...]
    n_layers: Figure
    before: tuple[str, ...]
    after: tuple[str, ...]
    beside: tuple[str, ...] = ()


class Share(NamedTuple):
    """A component of the bars at the foot: its stored numbers, and those that one token reads."""

    name: str
    hue: Hue
    stored: Figure
    read: Figure


@dataclass(frozen=True)
class Anatomy:
    """All that a drawing of one model says.

    headline: key figures, each with its caption and its form (`short`, `bytes`).
    strips: the stacks of layers. kinds: of layer. parts: mixers and networks.
    shares: of the quantity `shown` (`params`, `flops`, `bytes`, `kv`, `time`). foot: lines beside them.
    towers: encoders beside a language model, each under the name of its part.
    """

    name: str
    subtitle: str
    headline: tuple[tuple[Figure, str, str], ...]
    strips: tuple[Strip, ...]
    kinds: tuple[Kind, ...]
    parts: tuple[DrawnPart, ...]
    shares: tuple[Share, ...]
    shown: str
    foot: tuple[str, ...] = ()
    towers: tuple[Anatomy, ...] = ()
