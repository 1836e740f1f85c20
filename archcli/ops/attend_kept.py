"""What the backward of attention keeps: in one kernel q, k, v and the result, else the scores too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from archcli.arith import Shape, ceil_div, is_one, prod
from archcli.graph.kept import BOOL, FP32, INT64, Call, In, Kept, New, Out


class KeptSteps(NamedTuple):
    """Which steps attention has between its products: those whose gradient keeps something.

    `masked` says that one kernel needs the mask written out, `selects` that each sequence has its own.
    """

    masked: bool
    selects: bool = False
    softcap: bool = False
    sinks: bool = False
    relu: bool = False
    dropout: bool = False


SEEDS = 2
"""Numbers of the random state that a fused kernel keeps, for its dropout."""
ROWS_OF_KERNEL = 32
"""Queries to whose multiple the memory-efficient kernel rounds its sums up."""


def fused(steps: KeptSteps, call: Call, q: Shape, k: Shape, v: Shape) -> Iterator[Kept]:
    """q, k, v, the result and the log of each row's sum; a mask where the kernel needs one.

    FlashAttention, arXiv:2205.14135; where there is a mask, or values are narrower than keys, a GPU runs the
    memory-efficient kernel.
    """
    batch, new, heads, _ = q
    yield from (In(0), In(1), In(2), Out(0))
    if call.on_cuda:
        flash = not steps.masked and bool(k[3] == v[3]) and call.widths[0] != FP32
        rows = new if flash else ceil_div(new, ROWS_OF_KERNEL) * ROWS_OF_KERNEL
        yield New(batch * heads * rows, FP32)
        yield New(SEEDS, INT64)
    else:
        yield New(batch * heads * new, FP32)
    if steps.masked:
        yield New(new * k[1] * (batch if steps.selects else 1), call.width)


def eager(steps: KeptSteps, call: Call, q: Shape, k: Shape, v: Shape) -> Iterator[Kept]:
    """Operands of both products, and of each step between them what its gradient is computed from."""
    batch, new, heads, _ = q
    pairs, width = batch * heads * new * k[1], call.widths[0]
    grouped = not (heads is k[2] or heads == k[2])
    yield In(0) if is_one(batch) and not grouped else New(prod(q), width)
    yield In(1) if is_one(batch) or is_one(k[2]) else New(prod(k), width)
    if steps.softcap:
        yield New(pairs, width)
    yield New(new * k[1] * (batch if steps.selects else 1), BOOL)
    probabilities = pairs + (batch * heads * new if steps.sinks else 0)
    if steps.relu:
        yield New(pairs, width)
        yield New(new, INT64)
    else:
        yield New(probabilities, FP32)
    if steps.dropout:
        yield New(pairs, BOOL if call.on_cuda else width)
    if (width != FP32 and not steps.relu) or steps.dropout:
        yield New(pairs, width)
    yield In(2) if is_one(batch) or is_one(k[2]) else New(prod(v), width)
