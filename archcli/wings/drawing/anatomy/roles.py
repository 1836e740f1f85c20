"""Roles: how an operation is drawn, by what it says of itself, or else by its weights and inputs.

matrix    a product with a weight: a trapezoid
unary     an operation on one tensor without a matrix: a pill
join      a sum or product of tensors: a ring
core      mixes tokens: attention, a scan
router    chooses experts
spread    sends tokens to experts, `gather` brings their outputs back: wiring alone
view      the same numbers in another shape; `heads`, `split`, `rotate`, `concat` are views that a bar shows
scale     times a constant, or a number that is stored
aside     positions, tables of rotations, biases on scores: left out
"""

from __future__ import annotations

from archcli.graph import Row

MATRIX_AXES = 2


def role_of(row: Row) -> str:
    """The role of a row's operation."""
    if row.op.drawn:
        return row.op.drawn
    if row.op.is_view:
        return "view"
    if any(len(shape) >= MATRIX_AXES for shape in row.weights.values()):
        return "matrix"
    # an operation of an outsider that says nothing: tensors of one shape are joined
    alike = [shape for shape in row.inputs if shape == row.outputs[0]]
    return "join" if len(alike) > 1 else "unary"
