"""The paper's operators with FLOPs and words, summed over the parts of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from archcli.arith import prod
from archcli.graph import OpClass, Part, Row
from archcli.measure.passes import Pass
from archcli.measure.profile.ivanov.table import LINES, TableLine


class CountedOperator(NamedTuple):
    """A line of the table with its class, FLOPs, and words (elements) read and written."""

    line: TableLine
    op_class: OpClass
    flops: int
    read: int
    written: int


class LayerPart(NamedTuple):
    """A part of a row, with its path within the layer and its name in the table."""

    row: Row
    path: str
    name: str
    part: Part


def operators(counted: Pass) -> tuple[CountedOperator, ...]:
    """The table's lines that occur in the pass, then parts of layers that the table lacks.

    Lines are in the table's order, other parts by row.
    """
    parts = list(layer_parts(counted))
    lines = [(line, [part for part in parts if _belongs(part, line)]) for line in LINES]
    named = {id(part) for _, members in lines for part in members}
    unnamed: dict[tuple[str, bool], list[LayerPart]] = {}
    for part in parts:
        if id(part) not in named:
            unnamed.setdefault((part.path, "/" in part.name), []).append(part)
    for (path, is_backward), members in unnamed.items():
        name = f"{path} dX" if is_backward else path
        lines.append((TableLine(name, (path,), tuple(part.name for part in members)), members))
    return tuple(_operator(line, members) for line, members in lines if members)


def layer_parts(counted: Pass) -> Iterator[LayerPart]:
    """All parts of rows within layers that the pass runs, backward included."""
    for row in counted.rows:
        path = within_layer(row.path)
        if path:
            yield from (LayerPart(row, path, name, part) for _, name, part in row.pieces(counted.phase))


def within_layer(path: str) -> str:
    """The path below its layer, empty for a row outside of all layers."""
    steps = path.split(".")
    return ".".join(steps[2:]) if steps[0] == "layers" else ""


def _belongs(part: LayerPart, line: TableLine) -> bool:
    same_phase = ("/" in part.name) == (line.phase == "backward")
    named = any(fnmatchcase(part.name, pattern) for pattern in line.parts)
    return same_phase and named and part.path in line.paths


def _operator(line: TableLine, members: list[LayerPart]) -> CountedOperator:
    read = written = flops = 0
    for (row, _, _, part), again in zip(members, _shared_words(line, members), strict=True):
        is_written = part.wrt == 0
        flops += row.times * part.flops
        read += row.times * (part.read - (0 if is_written else again))
        written += row.times * (part.written - (again if is_written else 0))
    return CountedOperator(line, members[0].part.op_class, flops, read, written)


def _shared_words(line: TableLine, members: Iterable[LayerPart]) -> Iterator[int]:
    """Words of an input shared with an earlier part, which the paper counts once."""
    seen: set[str] = set()
    for member in members:
        layer = member.row.path.removesuffix(member.path)
        yield prod(member.row.inputs[0]) if line.one_input and layer in seen else 0
        seen.add(layer)
