"""Memory of attention's backward while it runs, beside the tensors kept for it and all gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from archcli.arith import Number, Shape, ceil_div, is_one, is_whole, maximum, prod
from archcli.graph.kept import BOOL, FP32, Call
from archcli.ops.attention.attend_kernel import HALF_BYTES, ROW_BYTES, WIDEST_FLASH


def same(a: Number, b: Number) -> bool:
    """Whether two sizes are the same number: of symbols the same one, of arrays all elements."""
    equal: Any = a is b or a == b
    return bool(equal.all() if hasattr(equal, "all") else equal)


class AttendCall(NamedTuple):
    """A call of attention: its sizes, and the steps that change the memory of its backward.

    `masked` says that one kernel needs the mask written out, `sinks` which input holds them.
    """

    call: Call
    q: Shape
    k: Shape
    v: Shape
    masked: bool
    sinks: int | None = None
    relu: bool = False
    dropout: bool = False

    @property
    def width(self) -> Number:
        """Bytes of an element of q, k and v."""
        return self.call.widths[0]

    @property
    def pairs(self) -> Number:
        """Scores of all heads and sequences."""
        return self.q[0] * self.q[2] * self.q[1] * self.k[1]

    @property
    def grouped(self) -> bool:
        """Whether several query heads share keys and values."""
        return not same(self.q[2], self.k[2])

    @property
    def takes_flash(self) -> bool:
        """Whether a GPU runs flash attention."""
        q, v = self.padded(self.q[3]), self.padded(self.v[3])
        narrow = not is_whole(q) or q <= WIDEST_FLASH
        return not self.masked and bool(self.width == HALF_BYTES) and same(q, v) and narrow

    def padded(self, d: Number) -> Number:
        """The width of heads that one kernel gets in place of d; symbols and arrays are wide enough."""
        if not self.call.on_cuda:
            return d if same(self.q[3], self.v[3]) else maximum(self.q[3], self.v[3])
        step = ROW_BYTES // self.width
        return ceil_div(d, step) * step if is_whole(d) else d


def joins(x: Shape) -> bool:
    """Whether sequences and heads of [B, T, H, d] are one axis without a copy."""
    return is_one(x[0]) or is_one(x[1]) or is_one(x[2])


def backward(op: AttendCall, *, fused: bool) -> Number:
    """Bytes of the backward beside all gradients, where the scores outweigh q, k and v.

    In one kernel: the gradients of padded or repeated heads. Step by step: the larger of two moments, both
    before q and k have gradients. At the first the gradients of the probabilities stand beside a copy of the
    result's; at the second there are those in and out of the softmax in fp32, less what was released before.
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
