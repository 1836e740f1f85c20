"""Read the rows of a part or of a layer into drafts of the nodes to draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.graph import StateContent
from archcli.graph.wired_tape import INPUT as GIVEN
from archcli.graph.wired_tape import WiredRow, WiredTrace
from archcli.modules.adapters.adapted import Adapted
from archcli.modules.spec.trace import ADAPTERS
from archcli.wings.drawing.anatomy.draft import INPUT, OUTPUT, Draft, Drafts, Tap
from archcli.wings.drawing.anatomy.figures import added, cached_figure, output_figure, shown, width_figure
from archcli.wings.drawing.anatomy.roles import role_of
from archcli.wings.drawing.anatomy.titles import foreign_label, label_of, short_name
from archcli.wings.drawing.drawn import Figure, Heads, Piece, Role, Statement

NODES: Mapping[str, Role] = {
    "matrix": "matrix",
    "unary": "unary",
    "join": "join",
    "core": "core",
    "router": "router",
}
"""Roles of operations that become nodes."""
STATING = ("core", "router")
"""Roles of nodes with a line for each mark; the marks of others stand under the title of their part."""


class Forward(NamedTuple):
    """A traced forward.

    rows: by id.
    entered, left: input and output value of each module, by its path, named as in `reads`.
    modules: by path.
    """

    rows: Mapping[str, WiredRow]
    entered: Mapping[str, str]
    left: Mapping[str, str]
    modules: Mapping[str, Any]

    def maker(self, value: str) -> tuple[WiredRow | None, str]:
        """(row that made a value, its output or weight); the row is None for an input of the model."""
        if value in self.rows:
            return self.rows[value], "0"
        name, _, which = value.rpartition(":")
        return self.rows.get(name), which

    def asides(self, row: WiredRow) -> Iterator[WiredRow]:
        """The rows behind what a row reads that are no nodes of their own: tables, biases, sinks."""
        for value in row.reads or ():
            source = self.maker(value)[0]
            if source is not None and role_of(source) == "aside":
                yield from (*self.asides(source), source)

    def marks(self, rows: Iterable[WiredRow]) -> tuple[Statement, ...]:
        """What rows and their asides say of themselves: `RoPE θ 500,000`, `sinks`."""
        every = (of for row in rows for of in (*self.asides(row), row))
        return tuple(dict.fromkeys(Statement(mark) for row in every for mark in marks_of(row)))

    def width(self, value: str) -> Figure | None:
        """The width of a value; None for an input of the model, and for a weight."""
        row, which = self.maker(value)
        return None if row is None or not which.isdecimal() else output_figure(row, -1, int(which))


def marks_of(row: WiredRow) -> tuple[str, ...]:
    """What a row says of itself."""
    return row.op.traits(*row.inputs).marks


def forward_of(trace: WiredTrace) -> Forward:
    """The forward of a trace."""
    rows = {row.id: row for row in trace.rows}
    # a module with an adapter (LoRA) is drawn as the module
    modules = {
        path: module.module if type(module) is Adapted else module for path, module in trace.modules.items()
    }
    return Forward(rows, trace.entered, trace.left, modules)


class Reader:
    """Reads rows into drafts.

    boxes: the draft of each inner module that is drawn as one box, by path.
    scales: whether factors are drawn.
    drafts: the result.
    ports: the taps at which a value is read.
    states: rows with a recurrent state.
    """

    def __init__(
        self, forward: Forward, entry: str, boxes: Mapping[str, Draft] | None = None, *, scales: bool = False
    ) -> None:
        self.forward, self.boxes, self.scales = forward, boxes or {}, scales
        self.drafts = Drafts({INPUT: Draft(INPUT, "input", width=forward.width(entry))})
        self.ports: dict[str, tuple[Tap, ...]] = {entry: (Tap(INPUT),)}
        self.states: list[WiredRow] = []

    def read(self, rows: Iterable[WiredRow], end: str) -> Drafts:
        """The drafts of rows, up to their output value `end`."""
        for row in rows:
            box = self._box(row.path)
            if box is None:
                READERS["aside" if row.group == ADAPTERS and row.weights else role_of(row)](self, row)
                if row.states:
                    self._cache(row)
            else:
                self._into(box, row)
        ends = list(self.ports_of(end))
        self.drafts[OUTPUT] = Draft(OUTPUT, "output", reads=ends, width=self.forward.width(end))
        self.drafts.prune()
        # inputs first: those from outside are discovered only when a row reads them
        ordered = sorted(self.drafts.items(), key=lambda item: item[1].role != "input")
        return Drafts(ordered)

    def ports_of(self, value: str) -> tuple[Tap, ...]:
        """The ports at which a value is read; none for a value that is left out."""
        if value in self.ports:
            return self.ports[value]
        row, which = self.forward.maker(value)
        if row is None or not which.isdecimal() or role_of(row) == "aside":
            return ()
        if (box := self._box(row.path)) is not None:
            return (Tap(box.id),)
        # made elsewhere: the encoder's output, the embeddings, another layer's keys
        name = f"from {row.id}" if which == "0" else f"from {value}"
        if name not in self.drafts:
            label = foreign_label(row.path)
            self.drafts[name] = Draft(name, "input", label, rows=[row], width=self.forward.width(value))
        self.ports[value] = (Tap(name),)
        return self.ports[value]

    def reads(self, row: WiredRow) -> list[Tap]:
        """The ports that a row reads, each once; a product without any reads image vectors."""
        ports = list(dict.fromkeys(port for value in row.reads or () for port in self.ports_of(value)))
        if not ports and role_of(row) == "matrix" and GIVEN in (row.reads or ()):
            return [self._images(row)]
        for port in ports:
            if port.piece is not None:
                # a piece without a better name is called by its first reader
                self.drafts[port.node].names.setdefault(port.piece, short_name(row.path))
        return ports

    def _images(self, row: WiredRow) -> Tap:
        """The port of image vectors, a second input of the decoder."""
        name, shape = f"from {GIVEN}", row.inputs[0]
        width = shown(row, f"inputs.0.{len(shape) - 1}", shape[-1])
        self.drafts.setdefault(name, Draft(name, "input", "images", width=width))
        return Tap(name)

    def give(self, row: WiredRow, *ports: Iterable[Tap]) -> None:
        """Set the ports at which the outputs of a row are read, in the order of the outputs."""
        for i, of_output in enumerate(ports):
            self.ports[f"{row.id}:{i}" if i else row.id] = tuple(of_output)

    def _box(self, path: str) -> Draft | None:
        """The box that a row's path lies in."""
        if not self.boxes:
            return None
        steps = path.split(".")
        stems = (".".join(steps[:i]) for i in range(1, len(steps)))
        return next((self.boxes[stem] for stem in stems if stem in self.boxes), None)

    def _into(self, box: Draft, row: WiredRow) -> None:
        """Put a row into a box; the box reads the row's inputs from outside."""
        box.rows.append(row)
        if box.id not in self.drafts:
            self.drafts[box.id] = box
            box.reads = list(self.ports_of(self.forward.entered[box.id]))
        if box.is_open:
            outside = [port for port in self.reads(row) if port.node != box.id]
            box.reads = list(dict.fromkeys([*box.reads, *outside]))

    def width(self, row: WiredRow) -> Figure:
        """The features of a row's output; in the wiring of a layer those of one residual stream."""
        return output_figure(row) if self.scales else width_figure(row)

    def node(self, row: WiredRow) -> None:
        """Draw a row as a node."""
        role, reads = NODES[role_of(row)], self.reads(row)
        if not reads:
            self.give(row, *[()] * len(row.outputs))
            return
        if role == "join" and len(reads) == 1:
            # the other operand is a bias or a number, which are not drawn
            self.view(row)
            self.drafts[reads[0].node].rows += [of for of in self.forward.asides(row) if of.weights]
            return
        label = short_name(row.path) if role == "matrix" else label_of(row)
        draft = self.drafts[row.id] = Draft(row.id, role, label, reads, [row], self.width(row))
        draft.rows = [*(of for of in self.forward.asides(row) if of.weights), row]
        if role == "core":
            draft.ports = {value: self.ports_of(value) for value in row.reads or ()}
        if role in STATING:
            draft.lines = self.forward.marks([row])
        self.give(row, *[[Tap(row.id)]] * len(row.outputs))

    def view(self, row: WiredRow) -> None:
        """Draw nothing: the output is read at the ports of the first input."""
        self.reads(row)
        first = next((ports for value in row.reads or () if (ports := self.ports_of(value))), ())
        self.give(row, *[first] * len(row.outputs))

    def scale(self, row: WiredRow) -> None:
        """Draw a factor, in the wiring of a layer only."""
        if not self.scales:
            self.view(row)
            return
        self.drafts[row.id] = Draft(
            row.id, "unary", label_of(row), self.reads(row), [row], output_figure(row)
        )
        self.give(row, [Tap(row.id)])

    def heads(self, row: WiredRow) -> None:
        """Divide a bar into heads."""
        self.view(row)
        ports = self.ports[row.id]
        of = self.drafts[ports[0].node] if len(ports) == 1 else None
        if of is not None and ports[0].piece is None and of.heads is None and of.role == "matrix":
            last = len(row.outputs[0]) - 1
            of.heads = Heads(output_figure(row, last - 1), output_figure(row, last))
            of.rows.append(row)

    def split(self, row: WiredRow) -> None:
        """Divide a bar into pieces."""
        self.view(row)
        ports = self.ports[row.id]
        of = self.drafts[ports[0].node] if len(ports) == 1 else None
        if of is None or ports[0].piece is not None or of.pieces or of.role not in ("matrix", "unary"):
            return
        of.pieces = [Piece(output_figure(row, -1, i), "") for i in range(len(row.outputs))]
        of.rows.append(row)
        self.give(row, *[[Tap(of.id, i)] for i in range(len(row.outputs))])

    def rotate(self, row: WiredRow) -> None:
        """Mark heads, or a piece of each, as rotated by RoPE."""
        self.view(row)
        for port in self.ports[row.id]:
            of = self.drafts.bar(self.drafts[port.node])
            if of is None:
                continue
            if port.piece is None:
                share = row.op.traits(*row.inputs).rotary_share
                of.turned = None if share is None else shown(row, "rotary_share", share)
            of.mark(port.piece, rotated=True)
            of.rows.append(row)

    def _cache(self, row: WiredRow) -> None:
        """Mark a bar or its piece as cached; note a recurrent state."""
        holds = next((state.holds for state in row.states if state.tokens), None)
        if holds is None:
            self.states.append(row)
            return
        is_drawn = row.id in self.drafts
        for port in self.ports.get(row.id, ()):
            of = self.drafts[port.node]
            bar = self.drafts.bar(of)
            is_drawn = is_drawn or (bar is not None and row in bar.rows)
            if bar is None:
                continue
            # several rows of one bar: the latent, and the rotary key beside it
            bar.cached = cached_figure(row) if bar.cached is None else added(bar.cached, cached_figure(row))
            piece = port.piece if bar is of else self.drafts.piece_behind(of)
            bar.mark(piece, cached=True)
            if not is_drawn:
                bar.rows.append(row)
                is_drawn = True
            if holds is StateContent.LATENT and piece is not None:
                bar.names[piece] = "latent"

    def concat(self, row: WiredRow) -> None:
        """Concatenate: a reader of the output reads all inputs."""
        self.give(row, self.reads(row))

    def spread(self, row: WiredRow) -> None:
        """Tokens that are sent to experts; indices of tokens are left out."""
        self.give(row, self.reads(row), *[()] * (len(row.outputs) - 1))

    def aside(self, row: WiredRow) -> None:
        """Leave a row out."""
        self.give(row, *[()] * len(row.outputs))


READERS: Mapping[str, Callable[[Reader, WiredRow], None]] = {
    **dict.fromkeys(NODES, Reader.node),
    "view": Reader.view,
    "gather": Reader.view,
    "spread": Reader.spread,
    "scale": Reader.scale,
    "heads": Reader.heads,
    "split": Reader.split,
    "rotate": Reader.rotate,
    "concat": Reader.concat,
    "aside": Reader.aside,
}
"""How rows of each role are read."""
