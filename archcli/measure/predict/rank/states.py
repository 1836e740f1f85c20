"""Recurrent states in an engine: a convolution with its activation, and a scan, each in one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archcli.arith import prod
from archcli.graph import Row
from archcli.launches.kernel import KernelCost, KernelRun
from archcli.recording.classes import TimeClass
from archcli.recording.operations import JOIN

CONVOLUTION, RECURRENCE = "convolution", "recurrence"
SHORT_CONVOLUTION = "short_conv"
OF_DELTA_NETS = 3
"""Convolutions of a delta net: of queries, keys and values; axes of its decay, one for each head."""


ACTIVATION = "_act"


def of_state(path: str, rows: Mapping[str, Row | None]) -> str:
    """The kind of a row, short convolution with its activation or scan; empty for any other."""
    row = rows.get(path)
    if row is None:
        return ""
    if row.op.component == RECURRENCE and row.states:
        return RECURRENCE
    if path.endswith(ACTIVATION):
        # q_act follows q_conv, conv_act follows conv
        convolved = path.removesuffix(ACTIVATION)
        names = (convolved, f"{convolved}_conv")
        row = next((owner for name in names if (owner := rows.get(name)) is not None), row)
    return CONVOLUTION if row.op.component == SHORT_CONVOLUTION else ""


def of_states(kind: str, group: Sequence[KernelRun], rows: Mapping[str, Row | None], width: int) -> KernelRun:
    """One kernel that reads inputs and states, and writes outputs and states, each once."""
    known = {run.path: row for run in group if (row := rows.get(run.path)) is not None}
    keeping = [row for row in known.values() if row.op.component in {SHORT_CONVOLUTION, RECURRENCE}]
    read = width * sum(int(prod(shape)) for row in keeping for shape in row.inputs)
    written = width * sum(int(prod(shape)) for row in keeping for shape in row.outputs)
    last = group[-1]
    kernel = KernelCost(f"_{kind}_of_engine", 0, read, written, last.kernel.dtype, _call(kind, keeping))
    times = min(run.times for run in group)
    return last._replace(path=JOIN.join(known), kernel=kernel, op_class=TimeClass.RECURRENCE, times=times)


def _call(kind: str, rows: Sequence[Row]) -> Any:
    """The call of a gated delta net with heads of the measured width; else None."""
    from archcli.measure.predict.engine_kernels.delta_net import WIDTH, DeltaCall, DeltaKernelCall

    first = rows[0].inputs
    batch, length = (int(size) for size in first[0][:2])
    if kind == CONVOLUTION:
        if len(rows) != OF_DELTA_NETS:
            return None
        keys, values = (int(rows[number].inputs[0][2]) / WIDTH for number in (1, 2))
        return DeltaKernelCall(kind, DeltaCall(keys, values, batch, length))
    is_delta = type(rows[0].op).__name__ == "DeltaScan" and len(first[3]) == OF_DELTA_NETS
    if not is_delta or (first[0][3], first[2][3]) != (WIDTH, WIDTH):
        return None
    return DeltaKernelCall(kind, DeltaCall(int(first[0][2]), int(first[2][2]), batch, length))
