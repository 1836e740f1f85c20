"""Charges: what every part of every row costs, in which class, and at which operator it stands.

A row's cost stands at its own path. In a compiled model it stands with the kernel that runs that part of the row first,
so that every FLOP is counted once; a row in no kernel stands for itself. A row whose attention ran as one fused kernel
is a class of its own with all its parts, as the kernel's time is never split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from archcli.graph import Op, OpClass, Part, Row
from archcli.measure.passes import Pass
from archcli.modules import Model
from archcli.modules.layers import folded_path
from archcli.recording.classes import FUSED
from archcli.recording.kernels import CompiledModel
from archcli.recording.operations import OpInstance
from archcli.recording.recording import Recording


class Charge(NamedTuple):
    """The cost of one part of a row, `times` over, at the path of the row or of a fused group.

    `executed` FLOPs ran, per occurrence. Of routed experts, so many had their weights read.
    """

    path: str
    op_class: str
    part: Part
    executed: int
    times: int
    experts: int | Fraction = 1


def charges(model: Model, counted: Pass, recording: Recording) -> Iterator[Charge]:
    """Every charge of a pass of the model that was counted and timed."""
    if recording.compiled is None:
        return _by_row(counted, recording)
    return _by_kernel(model, counted, recording, recording.compiled)


def _by_row(counted: Pass, recording: Recording) -> Iterator[Charge]:
    fused = {timed.path for timed in recording.timed if timed.op_class == FUSED}
    reached = _mean_reached(recording)
    for row in counted.rows:
        experts = reached.get(folded_path(row.path), 1)
        for _, _, part in row.pieces(counted.phase):
            op_class = FUSED if row.path in fused else str(part.op_class)
            executed = _executed_flops(row, part, op_class)
            yield Charge(row.path, op_class, part, executed, int(row.times), experts)


def _mean_reached(recording: Recording) -> dict[str, Fraction]:
    """By folded path, how many experts had their weights read: the mean over the layers."""
    by_layer: dict[str, list[int]] = defaultdict(list)
    for path, experts in recording.reached.items():
        by_layer[folded_path(path)].append(experts)
    return {path: Fraction(sum(experts), len(experts)) for path, experts in by_layer.items()}


def _by_kernel(
    model: Model,  # noqa: ARG001
    counted: Pass,
    recording: Recording,
    compiled: CompiledModel,
) -> Iterator[Charge]:
    for path, row, times in occurrences(counted.rows, recording.ran):
        experts = recording.reached.get(path, 1)
        for stage, _, part in row.pieces(counted.phase):
            home = compiled.home(path, stage, str(part.op_class))
            place, op_class = home or (path, str(part.op_class))
            yield Charge(place, op_class, part, _executed_flops(row, part, op_class), times, experts)


def _executed_flops(row: Row, part: Part, op_class: str) -> int:
    """FLOPs that kernels ran: all masked scores too, unless the fused kernel skips them."""
    return int(part.flops if op_class == FUSED and row.op.skips_masked(*row.inputs) else part.dense_flops)


def is_expert_product(row: Row) -> bool:
    """Whether a row multiplies by matrices of routed experts."""
    return (
        row.experts is not None and "weight" in row.weights and row.parts[0].op_class is OpClass.CONTRACTION
    )


def occurrences(rows: Sequence[Row], ran: Iterable[OpInstance]) -> Iterator[tuple[str, Row, int]]:
    """(path as it ran, row, how often) for each occurrence of a counted row: layers that are alike are counted once, and all run."""
    left = [int(row.times) for row in rows]
    exact, alike = dict[str, int](), defaultdict[str, list[int]](list)
    for i, row in enumerate(rows):
        exact[row.path] = i
        alike[folded_path(row.path)].append(i)
    for each in sorted(ran, key=lambda each: each.path not in exact):
        places = [exact[each.path]] if each.path in exact else alike[folded_path(each.path)]
        found = next(
            (
                i
                for i in places
                if left[i] and rows[i].inputs == each.inputs and _said(rows[i].op) == _said(each.op)
            ),
            None,
        )
        if found is not None:
            left[found] -= 1
            yield each.path, rows[found], 1
    yield from ((row.path, row, times) for row, times in zip(rows, left, strict=True) if times)


def _said(op: Op) -> str:
    """An operation by its settings; how many tokens came before is told to a run by positions."""
    any_op: Any = op
    return repr(replace(any_op, past=0) if hasattr(op, "past") else op)
