"""What the backward of a WKV keeps."""

from __future__ import annotations

from archcli.arith import Shape, prod
from archcli.graph.kept import Call, Kept
from archcli.ops.recurrent.kept_notes import Notes


def chunked(call: Call, v: Shape) -> tuple[Kept, ...]:
    """Keys and values [B, T, W]; chunks are pieces of each tensor. No gradient flows through maxima."""
    notes, n, width = Notes(call), prod(v), v[2]
    key, value = (notes.cast(notes.given(i), n) for i in (0, 1))
    decay = notes.of_result(notes.cast(notes.weight(), width), width)
    decays = notes.of_result(notes.made(n, decay), n)
    weight = notes.of_result(notes.made(n, key), n)
    terms = notes.made(2 * n, notes.times(weight, value, n), weight)
    sums = notes.scanned(decays, terms, 2 * n, v[1])
    past, now = notes.made(n), notes.of_result(notes.made(n, key, notes.weight()), n)
    of_past = notes.times(past, sums, n)
    numerator = notes.made(n, of_past, notes.times(now, value, n))
    notes.divided(numerator, notes.made(n, of_past, now), n)
    return notes.kept
