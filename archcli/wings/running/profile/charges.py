"""Charges: the cost of every part of every row, with its class and the operator's name in tables.

A row's cost stands at its own path. In a compiled model it stands with the kernel that runs that part of the
row first, so that every FLOP is counted once; a row in no kernel stands for itself. A row whose attention ran
as one fused kernel is a class of its own with all its parts, as the kernel's time is never split. Parts that
ran from token to token in kernels of their own have the class of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from archcli.graph import OpClass, Part, Row
from archcli.measure.passes import Pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.wings.running.recording.kernels import CompiledModel
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import COMMUNICATION, FUSED, RECURRENCE
from archcli.wings.serving.recorded.operations import JOIN, ClassKey, OpInstance, OpTime
from archcli.wings.serving.recorded.operators import GRADIENT_SUMS, operator_name

MOST_NAMES = 3
"""Operators of a group that a table names; JSON has all."""


def abbreviated(name: str, operators: list[str] | None) -> str:
    """The name of a group cut to its first operators, and the number of the rest."""
    if operators is None or len(operators) <= MOST_NAMES:
        return name
    return f"{operator_name(JOIN.join(operators[:MOST_NAMES]))} + {len(operators) - MOST_NAMES} more"


def line_of(time: OpTime | ClassKey, depth: int) -> str:
    """The name of the table line that includes a measured time."""
    return GRADIENT_SUMS if time.phase == "sums" else operator_name(time.path, depth)


class Charge(NamedTuple):
    """The cost of one part of a row, `times` over, at the path of the row or of a fused group.

    `executed` are the FLOPs that ran, per occurrence; `experts` the routed experts whose weights were read.
    """

    path: str
    op_class: str
    part: Part
    executed: int
    times: int
    experts: int | Fraction = 1


def charges(model: Model, counted: Pass, recording: Recording) -> Iterator[Charge]:
    """Every charge of a pass of the model that was counted and timed."""
    index = LayerIndex(model)
    if recording.compiled is None:
        return _by_row(index, counted, recording)
    return _by_kernel(index, counted, recording, recording.compiled)


def _by_row(index: LayerIndex, counted: Pass, recording: Recording) -> Iterator[Charge]:
    fused = {timed.path for timed in recording.timed if timed.op_class == FUSED}
    scanned = {(timed.path, timed.phase) for timed in recording.timed if timed.op_class == RECURRENCE}
    reached = _mean_reached(index, recording)
    for row in counted.rows:
        experts = reached.get(row.path, 1)
        for stage, _, part in row.pieces(counted.phase):
            op_class = FUSED if row.path in fused else str(part.op_class)
            if part.scans and (row.path, stage) in scanned:
                op_class = RECURRENCE
            if row.op.exchanges:
                op_class = COMMUNICATION
            # with the class as timed: only a fused kernel may skip masked scores
            executed = _executed_flops(row, part, op_class)
            yield Charge(row.path, op_class, part, executed, int(row.times), experts)


def _mean_reached(index: LayerIndex, recording: Recording) -> dict[str, Fraction]:
    """By counted path, how many experts had their weights read: the mean over equal layers."""
    by_layer: dict[str, list[int]] = defaultdict(list)
    for path, experts in recording.reached.items():
        by_layer[index.counted_path(path)].append(experts)
    # no float: bytes are rounded once, when all layers are added up
    return {path: Fraction(sum(experts), len(experts)) for path, experts in by_layer.items()}


def _by_kernel(
    index: LayerIndex, counted: Pass, recording: Recording, compiled: CompiledModel
) -> Iterator[Charge]:
    for path, row, times in occurrences(index, counted, recording.ran):
        experts = recording.reached.get(path, 1)
        for stage, _, part in row.pieces(counted.phase):
            scan = compiled.charged_groups.get((path, stage, RECURRENCE)) if part.scans else None
            group = scan or compiled.charged_group(path, stage, str(part.op_class))
            place, op_class = group or (path, str(part.op_class))
            yield Charge(place, op_class, part, _executed_flops(row, part, op_class), times, experts)


def occurrences(
    index: LayerIndex, counted: Pass, ran: Iterable[OpInstance]
) -> Iterator[tuple[str, Row, int]]:
    """(path in the run, counted row, times) of every operation run, then of occurrences that did not run.

    Equal layers are counted once and all run.
    """
    rows = {row.path: row for row in counted.rows}
    left = {row.path: int(row.times) for row in counted.rows}
    for instance in sorted(ran, key=lambda instance: instance.path not in rows):  # counted layers come first
        path = index.counted_path(instance.path)
        if left.get(path):
            left[path] -= 1
            yield instance.path, rows[path], 1
    yield from ((path, rows[path], times) for path, times in left.items() if times)


def _executed_flops(row: Row, part: Part, op_class: str) -> int:
    """FLOPs that kernels ran: all masked scores too, unless the fused kernel skips them."""
    skips = op_class == FUSED and row.op.skips_masked(*row.inputs)
    return int(part.flops if skips else part.unmasked_flops)


def is_expert_product(row: Row) -> bool:
    """Whether a row multiplies by matrices of routed experts."""
    is_product = bool(row.parts) and row.parts[0].op_class is OpClass.CONTRACTION
    return row.experts is not None and "weight" in row.weights and is_product
