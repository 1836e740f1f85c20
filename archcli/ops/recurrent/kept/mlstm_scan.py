"""What the backward of an MLSTMScan keeps."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, Shape, prod
from archcli.graph.kept import Call, Kept
from archcli.ops.recurrent.kept.phases import Phase, phases
from archcli.ops.recurrent.kept_notes import Noted, Notes


class _MemoryTensors(NamedTuple):
    """Queries, keys, values, the logarithms of input gates and the cumulative ones of forget gates; sizes."""

    q: Noted
    k: Noted
    v: Noted
    i: Noted
    total: Noted
    heads: Number
    keys: Number
    values: Number


def chunked(call: Call, q: Shape, v: Shape, chunk: Number) -> tuple[Kept, ...]:
    """Queries and keys [B, T, H, N], values [B, T, H, P], gates [B, T, H], in chunks."""
    notes, heads, rows = Notes(call), v[0] * v[2], prod(v[:3])
    q_, k_, v_, i_ = (notes.by_head(i, shape) for i, shape in enumerate((q, q, v, v[:3])))
    total = notes.made(rows, notes.of_input(notes.made(rows, notes.given(4)), rows))
    scan = _MemoryTensors(q_, k_, v_, i_, total, heads, q[3], v[3])
    sizes = (heads * q[3] * v[3], heads * q[3])
    state, keys = (notes.made(size) for size in sizes)
    first, *others = phases(v[1], chunk)
    notes.mask(notes.made(0, total, i_), first.blocks)
    chunks = sum(other.chunks for other in others)
    for phase in (first, *others):
        after = _follow(notes, scan, phase, state, keys)
        state, keys = (notes.made(size * chunks, x) for size, x in zip(sizes, after, strict=True))
    return notes.kept


def _follow(notes: Notes, x: _MemoryTensors, phase: Phase, state: Noted, keys: Noted) -> tuple[Noted, Noted]:
    """Follow a phase from C and n before its chunks; returns those after them."""
    rows, blocks = x.heads * phase.tokens, x.heads * phase.blocks
    values = rows * x.values
    gates = notes.of_result(notes.made(blocks, x.total, x.i), blocks)
    decay = notes.of_result(x.total, rows)
    scores = notes.times(notes.times(x.q, x.k, blocks), gates, blocks)
    carried = notes.times(notes.times(x.q, state, values), decay, values)
    mixed = notes.made(values, notes.times(scores, x.v, values), carried)
    summed = notes.made(rows, scores, notes.times(notes.times(x.q, keys, rows), decay, rows))
    gated = notes.times(x.k, gates, rows * x.keys)
    learnt = notes.times(gated, x.v, 0)
    after = notes.made(0, notes.times(state, decay, 0), learnt)
    keys = notes.made(0, notes.times(keys, decay, 0), gated)
    _divide(notes, mixed, summed, rows)
    return after, keys


def _divide(notes: Notes, mixed: Noted, summed: Noted, rows: Number) -> None:
    """By the larger of |n q| and exp(-m), plus eps."""
    size = notes.of_input(summed, rows)
    if size.grad:
        notes.save(size, notes.made(rows))
    notes.divided(mixed, notes.made(rows, size), rows)
