"""The paper's operators with FLOPs and words, summed over the parts of rows, and their measured times.

Operators that share a kernel or a torch operation share one measured time, which is never split: a linear
layer adds its bias within the product, and the products of both its gradients have one name, as have those
of attention. Random numbers, copies and operations outside of the layers have lines of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from archcli.arith import prod
from archcli.graph import OpClass, Part, Row
from archcli.measure.passes import Pass
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import FRAMEWORK, FUSED
from archcli.wings.serving.recorded.operations import ClassKey
from ivanov.table import LINES, TableLine


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
        # the gradient of the shared input is written, any other part reads that input
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


OUTSIDE = "outside of the layer"
SUMS = ClassKey("", "sums", OpClass.ELEMENTWISE)
"""Additions that accumulate gradients, at whichever row."""


class OperatorGroup(NamedTuple):
    """Operators that were measured together, by their places in the table.

    Seconds are None where they took no time of their own.
    """

    members: tuple[int, ...]
    seconds: float | None


class OperatorTimes(NamedTuple):
    """Seconds of groups of operators, and by class: within the layers, and outside of them."""

    groups: tuple[OperatorGroup, ...]
    by_class: Mapping[str, float]


def operator_times(operators: Sequence[CountedOperator], recording: Recording) -> OperatorTimes:
    """Assign every measured time to the operators it belongs to."""
    spent: dict[ClassKey, float] = defaultdict(float)
    by_class: dict[str, float] = defaultdict(float)
    for timed in recording.timed:
        inside, sums = within_layer(timed.path), timed.phase == "sums"
        if timed.op_class != FRAMEWORK:
            by_class[timed.op_class if inside or sums else OUTSIDE] += timed.seconds
        if inside or sums:
            spent[SUMS if sums else ClassKey(inside, timed.phase, timed.op_class)] += timed.seconds
    keys = [_keys(operator, spent) for operator in operators]
    return OperatorTimes(_groups(keys, spent), dict(by_class))


def _keys(operator: CountedOperator, spent: Mapping[ClassKey, float]) -> set[ClassKey]:
    """Keys of the measured times that include an operator, at most one per row.

    That is the time in its class, else that of the product or the kernel that took it in.
    """
    keys = {SUMS} & spent.keys() if operator.line.meets else set()
    for path in operator.line.paths:
        classes = (operator.op_class, OpClass.CONTRACTION, FUSED)
        candidates = (ClassKey(path, operator.line.phase, op_class) for op_class in classes)
        keys |= set([key for key in candidates if key in spent][:1])
    return keys


def _groups(keys: Sequence[set[ClassKey]], spent: Mapping[ClassKey, float]) -> tuple[OperatorGroup, ...]:
    """Groups of operators that share a measured time."""
    joined: list[tuple[set[int], set[ClassKey]]] = []
    for i, times in enumerate(keys):
        touching = [group for group in joined if group[1] & times]
        members = {i}.union(*(group[0] for group in touching))
        common = times.union(*(group[1] for group in touching))
        joined = [*(group for group in joined if group not in touching), (members, common)]
    groups = (
        # sorted: a set has another order in each process, and a sum of floats depends on it
        OperatorGroup(tuple(sorted(members)), sum(spent[key] for key in sorted(common)) if common else None)
        for members, common in joined
    )
    return tuple(sorted(groups))
