"""Drafts of nodes, while the rows of a part or of a layer are folded into those that are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archcli.graph.wired_tape import WiredRow
from archcli.wings.drawing.drawn import (
    DrawnNode,
    ExpertChoice,
    Figure,
    Heads,
    HeldState,
    Hue,
    MaskExample,
    Piece,
    Role,
)

INPUT, OUTPUT = "input", "output"


class Tap(NamedTuple):
    """A node, and which piece of its bar is read; None for all of it."""

    node: str
    piece: int | None = None


@dataclass(eq=False)
class Draft:
    """A node that is being put together: see `DrawnNode` for what its fields mean."""

    id: str
    role: Role
    label: str = ""
    reads: list[Tap] = field(default_factory=list)
    rows: list[WiredRow] = field(default_factory=list)
    width: Figure | None = None
    pieces: list[Piece] = field(default_factory=list)
    stacked: list[Piece] = field(default_factory=list)
    heads: Heads | None = None
    turned: Figure | None = None
    mask: MaskExample | None = None
    held: tuple[HeldState, ...] = ()
    cached: Figure | None = None
    choice: ExpertChoice | None = None
    inner: tuple[DrawnNode, ...] = ()
    letter: str = ""
    hue: Hue = "plain"
    lines: tuple[str, ...] = ()
    ports: dict[str, tuple[Tap, ...]] = field(default_factory=dict)
    """Of a core: where each value that it reads comes from."""
    names: dict[int, str] = field(default_factory=dict)
    """What its pieces are called."""
    slots: list[str] = field(default_factory=list)
    """What cores read all of it as."""
    is_open: bool = True
    """Of a part: whether it shows what it reads besides the stream."""

    def mark(self, piece: int | None, **changes: Any) -> None:
        """Change what is said of one piece, or of all pieces."""
        for i, old in enumerate(self.pieces):
            if piece in (None, i):
                self.pieces[i] = old._replace(**changes)

    @property
    def is_plain(self) -> bool:
        """Whether it is an operation on one tensor, of which nothing further is said."""
        return self.role == "unary" and len(self.reads) == 1 and not self.held and self.cached is None

    def node(self, params: Figure | None) -> DrawnNode:
        """The node as it is drawn."""
        names = [self.names.get(i, "") for i in range(len(self.pieces))]
        if len(set(names)) == 1:
            # all pieces of a query's head: it is the bar that has the name
            self.label, names = names[0] or self.label, [""] * len(names)
        pieces = (piece._replace(label=name) for piece, name in zip(self.pieces, names, strict=True))
        return DrawnNode(
            self.id,
            self.role,
            self.label,
            tuple(dict.fromkeys(port.node for port in self.reads)),
            tuple(row.id for row in self.rows),
            self.width,
            params,
            tuple(pieces),
            self.heads,
            self.mask,
            self.held,
            self.cached,
            self.choice,
            self.letter,
            self.hue,
            self.lines,
            turned=self.turned,
            stacked=tuple(self.stacked),
            inner=self.inner,
        )


class Drafts(dict[str, Draft]):
    """The drafts of a graph by id, in the order in which they run."""

    def readers(self, node: str) -> list[Draft]:
        """The drafts that read a node."""
        return [draft for draft in self.values() if any(port.node == node for port in draft.reads)]

    def only_reader(self, node: str) -> Draft | None:
        """The one draft that reads a node; None where there are several or none."""
        readers = self.readers(node)
        return readers[0] if len(readers) == 1 else None

    def replace_reads(self, old: str, new: Iterable[Tap]) -> None:
        """Let all that read a node read others in its place."""
        ports = list(new)
        for draft in self.values():
            reads: list[Tap] = []
            for port in draft.reads:
                reads += ports if port.node == old else [port]
            draft.reads = list(dict.fromkeys(reads))

    def drop(self, node: str) -> Draft:
        """Take a node out; what it read is read in its place."""
        draft = self.pop(node)
        self.replace_reads(node, draft.reads)
        return draft

    def prune(self) -> None:
        """Take out what does not lead to the output."""
        needed, waiting = {OUTPUT}, [OUTPUT]
        while waiting:
            for port in self[waiting.pop()].reads:
                if port.node not in needed:
                    needed.add(port.node)
                    waiting.append(port.node)
        for node in [node for node in self if node not in needed and node != INPUT]:
            del self[node]

    def bar(self, draft: Draft) -> Draft | None:
        """The bar behind norms and the like: that of a product."""
        while draft.role == "unary" and draft.reads:
            draft = self[draft.reads[0].node]
        return draft if draft.role == "matrix" else None

    def piece_behind(self, draft: Draft) -> int | None:
        """Which piece of its bar norms and the like have read."""
        piece = None
        while draft.role == "unary" and draft.reads:
            piece = draft.reads[0].piece if piece is None else piece
            draft = self[draft.reads[0].node]
        return piece

    def sources(self, draft: Draft) -> Iterator[Draft]:
        """The drafts that a draft reads, in order."""
        return (self[port.node] for port in draft.reads)
