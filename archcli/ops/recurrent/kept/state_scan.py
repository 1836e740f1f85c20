"""What the backward of a StateScan keeps."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, Shape, prod
from archcli.graph.kept import Call, Kept
from archcli.ops.recurrent.kept.phases import Phase, phases
from archcli.ops.recurrent.kept_notes import Noted, Notes


class _StateTensors(NamedTuple):
    """The tensors of all chunks: queries, keys, values and cumulative log decays; and their sizes.

    `groups` and `heads` are those of all sequences, `width` that of a value.
    """

    q: Noted
    k: Noted
    v: Noted
    total: Noted
    groups: Number
    heads: Number
    width: Number


def chunked(call: Call, q: Shape, v: Shape, chunk: Number) -> tuple[Kept, ...]:
    """Queries and keys [B, T, G, N], values [B, T, H, P] and log decays [B, T, H], in chunks."""
    notes, groups, heads = Notes(call), q[0] * q[2], v[0] * v[2]
    pieces = (notes.by_head(0, q), notes.by_head(1, q), notes.by_head(2, v))
    scan = _StateTensors(*pieces, notes.made(prod(v[:3]), notes.given(3)), groups, heads, v[3])
    first, *others = phases(v[1], chunk)
    notes.mask(scan.total, first.blocks)
    state = notes.made(heads * q[3] * v[3])
    for phase in (first, *others):
        after = _follow(notes, scan, phase, state)
        state = notes.made(heads * q[3] * v[3] * sum(other.chunks for other in others), after)
    return notes.kept


def _follow(notes: Notes, scan: _StateTensors, phase: Phase, state: Noted) -> Noted:
    """Follow a phase from the states before its chunks; returns those after them."""
    rows = scan.heads * phase.tokens
    blocks, values = scan.heads * phase.blocks, rows * scan.width
    scores = notes.times(scan.q, scan.k, scan.groups * phase.blocks)
    segments = notes.of_result(scan.total, blocks)
    notes.times(notes.times(scores, segments, blocks), scan.v, values)
    grown = notes.of_result(scan.total, rows)
    notes.times(notes.times(scan.q, state, values), grown, values)
    added = notes.times(scan.v, notes.of_result(scan.total, rows), values)
    whole = notes.of_result(scan.total, scan.heads * phase.chunks)
    return notes.made(0, notes.times(state, whole, 0), notes.times(scan.k, added, 0))
