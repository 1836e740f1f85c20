"""What the backward of a SelectiveScan keeps."""

from __future__ import annotations

from archcli.arith import Shape, prod
from archcli.graph.kept import Call, Kept
from archcli.ops.recurrent.kept_notes import Notes


def chunked(call: Call, x: Shape, b: Shape) -> tuple[Kept, ...]:
    """Inputs x and dt [B, T, d], B and C [B, T, N]; or those of heads. Chunks are pieces of each tensor."""
    notes, n, channels = Notes(call), prod(x), prod(x[2:])
    states, one = n * b[-1], channels * b[-1]
    rates = notes.made(one, notes.of_result(notes.weight(), one))
    inputs, dt, key, query = (notes.in_rows(i, (x, x, b, b)[i]) for i in range(4))
    step = notes.of_input(dt, n)
    decay = notes.of_result(notes.times(step, rates, states), states)
    added = notes.times(notes.times(step, inputs, n), key, states)
    notes.times(notes.scanned(decay, added, states, x[1]), query, n)
    notes.times(notes.cast(notes.weight(), channels), inputs, n)
    return notes.kept
