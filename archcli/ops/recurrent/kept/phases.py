"""Phases of a scan in chunks: the first, before which there is no state, and all others together."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, minimum
from archcli.ops.recurrent.chunks import block_pairs, chunk_count


class Phase(NamedTuple):
    """Chunks of one sequence: their tokens, their pairs of tokens as full blocks, and how many they are."""

    tokens: Number
    blocks: Number
    chunks: Number


def phases(tokens: Number, chunk: Number) -> tuple[Phase, ...]:
    """The first chunk, and the others; where all is known to be one chunk, that alone."""
    one = minimum(tokens, chunk)
    first = Phase(one, one * one, 1)
    rest = Phase(tokens - one, block_pairs(tokens, chunk) - one * one, chunk_count(tokens, chunk) - 1)
    alone = isinstance(rest.chunks, int) and rest.chunks == 0
    return (first,) if alone else (first, rest)
