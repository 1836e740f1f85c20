"""What the backward of a DeltaScan keeps."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, Shape, is_one, prod
from archcli.graph.kept import Call, Kept
from archcli.ops.recurrent.kept.phases import Phase, phases
from archcli.ops.recurrent.kept_notes import Noted, Notes


class _DeltaTensors(NamedTuple):
    """Queries, keys and values, cumulative log decays, learning rates; and sizes.

    `heads` are those of all sequences, `d` and `e` the widths of a key and of a value, `channels` the decays
    of a key.
    """

    q: Noted
    k: Noted
    v: Noted
    total: Noted
    beta: Noted
    heads: Number
    d: Number
    e: Number
    channels: Number


def chunked(call: Call, q: Shape, v: Shape, decay: Shape, chunk: Number) -> tuple[Kept, ...]:
    """q and k [B, T, K, d], v [B, T, H, e], log a [B, T, H] or [B, T, H, d] and b [B, T, H], in chunks."""
    notes, heads = Notes(call), v[0] * v[2]
    x = _DeltaTensors(
        _repeated(notes, 0, q, v),
        _repeated(notes, 1, q, v),
        notes.by_head(2, v),
        notes.made(prod(decay), notes.given(3)),
        notes.by_head(4, v[:3]),
        heads,
        q[3],
        v[3],
        decay[3] if decay[3:] else 1,
    )
    first, *others = phases(v[1], chunk)
    notes.mask(x.total, first.blocks)
    state = notes.made(heads * q[3] * v[3])
    for phase in (first, *others):
        after = _follow(notes, x, phase, state)
        state = notes.made(heads * q[3] * v[3] * sum(other.chunks for other in others), after)
    return notes.kept


def _repeated(notes: Notes, which: int, q: Shape, v: Shape) -> Noted:
    """Queries or keys, repeated for the heads of values that share them."""
    if q[2] is v[2] or q[2] == v[2]:
        return notes.by_head(which, q)
    return notes.made(v[0] * v[1] * v[2] * q[3], notes.given(which))


def _follow(notes: Notes, x: _DeltaTensors, phase: Phase, state: Noted) -> Noted:
    """Follow a phase from the states before its chunks; returns those after them."""
    rows, blocks = x.heads * phase.tokens, x.heads * phase.blocks
    keys, values, gates = rows * x.d, rows * x.e, rows * x.channels
    weighted = notes.times(x.k, x.beta, keys)
    pairs = _head_pairs if is_one(x.channels) else _channel_pairs
    overlap, scores = pairs(notes, x, weighted, (keys, blocks))
    solved = notes.of_result(overlap, blocks)
    if solved.grad:
        notes.save(overlap)
    grown = notes.of_result(x.total, gates)
    old = notes.times(notes.times(solved, notes.times(weighted, grown, keys), keys), state, values)
    corrected = notes.made(values, notes.times(solved, notes.times(x.v, x.beta, values), values), old)
    notes.times(notes.times(x.q, grown, keys), state, values)
    notes.times(scores, corrected, values)
    left = notes.of_result(x.total, gates)
    whole = notes.of_result(x.total, x.heads * phase.chunks * x.channels)
    added = notes.times(notes.times(x.k, left, keys), corrected, 0)
    return notes.made(0, notes.times(state, whole, 0), added)


def _head_pairs(
    notes: Notes, x: _DeltaTensors, weighted: Noted, sizes: tuple[Number, Number]
) -> tuple[Noted, Noted]:
    """Products of keys with keys and queries, each times the quotient of its tokens' decays."""
    _, blocks = sizes
    quotients = notes.of_result(x.total, blocks)
    overlap = notes.times(notes.times(weighted, x.k, blocks), quotients, blocks)
    return overlap, notes.times(notes.times(x.q, x.k, blocks), quotients, blocks)


def _channel_pairs(
    notes: Notes, x: _DeltaTensors, weighted: Noted, sizes: tuple[Number, Number]
) -> tuple[Noted, Noted]:
    """Both products at once, with keys that are decayed for each query; the results lie in one tensor."""
    keys, blocks = sizes
    decayed = notes.times(notes.of_result(x.total, blocks * x.d), x.k, blocks * x.d)
    both = notes.times(notes.made(2 * keys, weighted, x.q), decayed, 2 * blocks)
    return both, both
