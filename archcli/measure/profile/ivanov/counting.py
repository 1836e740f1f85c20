"""The paper's operators, each with the FLOPs and words that the parts of the rows add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from archcli.arith import prod
from archcli.graph import OpClass, Part, Row
from archcli.measure.passes import Pass
from archcli.measure.profile.ivanov.table import LINES, Line


class Operator(NamedTuple):
    """A line of the table with its class, FLOPs, and words (elements) read and written."""

    line: Line
    op_class: OpClass
    flops: int
    read: int
    written: int


class Piece(NamedTuple):
    """A part of a row, under the path within the layer and the name that the table knows it by."""

    row: Row
    path: str
    name: str
    part: Part


def operators(counted: Pass) -> tuple[Operator, ...]:
    """Every line that the pass has something of, in the table's order, then whatever of the layers no line names, by row."""
    pieces = list(layer_pieces(counted))
    found = [(line, [piece for piece in pieces if _belongs(piece, line)]) for line in LINES]
    named = {id(piece) for _, own in found for piece in own}
    others: dict[tuple[str, bool], list[Piece]] = {}
    for piece in pieces:
        if id(piece) not in named:
            others.setdefault((piece.path, "/" in piece.name), []).append(piece)
    found += [
        (Line(f"{path} dX" if back else path, (path,), tuple(p.name for p in own)), own)
        for (path, back), own in others.items()
    ]
    return tuple(_operator(line, own) for line, own in found if own)


def layer_pieces(counted: Pass) -> Iterator[Piece]:
    """Every part that costs something of every row inside of a layer; the backward's where the pass has one."""
    train = counted.phase == "train"
    for row in counted.rows:
        path = within_layer(row.path)
        for part in row.parts if path else ():
            if train or not part.training:
                yield Piece(row, path, part.name, part)
            if train:
                yield from (Piece(row, path, f"{part.name}/{back.name}", back) for back in part.backward)


def within_layer(path: str) -> str:
    """The path below its layer, empty for a row outside of all."""
    steps = path.split(".")
    return ".".join(steps[2:]) if steps[0] == "layers" else ""


def _belongs(piece: Piece, line: Line) -> bool:
    same_phase = ("/" in piece.name) == (line.phase == "backward")
    return (
        same_phase and piece.path in line.paths and any(fnmatchcase(piece.name, part) for part in line.parts)
    )


def _operator(line: Line, pieces: list[Piece]) -> Operator:
    read = written = flops = 0
    for piece, again in zip(pieces, _again(line, pieces), strict=True):
        times, part = piece.row.times, piece.part
        flops += times * part.flops
        writes_it = part.wrt == 0
        read += times * (part.read - (0 if writes_it else again))
        written += times * (part.written - (again if writes_it else 0))
    return Operator(line, pieces[0].part.op_class, flops, read, written)


def _again(line: Line, pieces: Iterable[Piece]) -> Iterator[int]:
    """Words of the input that a piece shares with one before it, which the paper's one operator moves once."""
    seen: set[str] = set()
    for piece in pieces:
        layer = piece.row.path.removesuffix(piece.path)
        yield prod(piece.row.inputs[0]) if line.one_input and layer in seen else 0
        seen.add(layer)
