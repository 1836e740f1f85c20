"""What attention's backward takes while it runs, beside what the forward kept and all gradients."""

from __future__ import annotations

from archcli.arith import Number, is_one, maximum, prod
from archcli.graph.kept import BOOL, FP32
from archcli.ops.attention.attend_kept import AttendCall, joins, same


def backward(op: AttendCall, *, fused: bool) -> Number:
    """Bytes of the backward beside all gradients, where the scores outweigh q, k and v.

    In one kernel those of padded or repeated heads. Step by step the larger of two moments, at neither of
    which q and k have gradients: the gradients of probabilities beside a copy of the result's; those in and
    out of the softmax in fp32, less what is released before.
    """
    inputs = [prod(x) * op.width for x in (op.q, op.k, op.v)]
    if fused:
        return _gradients_of_copies(op) - sum(inputs)
    rows = prod(op.q[:3]) if op.sinks is not None else 0
    released = 0 if joins(op.v) else inputs[2]
    if op.dropout:
        released = released + op.pairs * (op.width + (BOOL if op.call.on_cuda else op.width))
    elif not op.call.in_fp32 or op.relu:
        released = released + op.pairs * op.width
    weighed = 2 * op.width * op.pairs if op.relu else 2 * FP32 * (op.pairs + rows)
    copies = not is_one(op.q[1]) if op.grouped else not joins(op.q)
    mixed = op.pairs * op.width + (prod(op.q[:3]) * op.v[3] * op.width if copies else 0)
    return maximum(0, maximum(mixed, weighed - released) - inputs[0] - inputs[1])


def _gradients_of_copies(op: AttendCall) -> Number:
    """Bytes of a kernel's gradients for q, k and v as it got them, and of a padded result's."""
    repeats = op.call.on_cuda and op.grouped and not op.takes_flash
    total: Number = 0
    for i, x in enumerate((op.q, op.k, op.v)):
        heads = op.q[2] if repeats and i else x[2]
        total = total + x[0] * x[1] * heads * op.padded(x[3]) * op.width
    wide = op.padded(op.v[3])
    return total if same(wide, op.v[3]) else total + prod(op.q[:3]) * wide * op.width
