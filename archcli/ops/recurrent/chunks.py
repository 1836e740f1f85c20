"""Chunks of a scan: how many there are, and the pairs of tokens that share one."""

from __future__ import annotations

from typing import Literal

from archcli.arith import Number, ceil_div
from archcli.ops.mask import Chunked

Form = Literal["auto", "chunked", "recurrent"]
"""How a scan runs: over chunks of tokens, token by token, or (auto) the latter where a token is decoded."""


def chunk_count(tokens: Number, chunk: Number) -> Number:
    """How many chunks the tokens make; the last may be shorter."""
    return ceil_div(tokens, chunk)


def causal_pairs(tokens: Number, chunk: Number) -> Number:
    """Pairs (t, s) of tokens of one chunk with s <= t."""
    return Chunked(chunk).pairs(tokens, 0, tokens)


def block_pairs(tokens: Number, chunk: Number) -> Number:
    """All pairs of tokens of one chunk: what a product of full blocks computes."""
    whole = tokens // chunk
    rest = tokens - whole * chunk
    return whole * chunk * chunk + rest * rest


def steps(form: Form, tokens: int, *, started: bool) -> bool:
    """Whether a run of this many tokens, with a state that was `started` before, goes token by token."""
    return form == "recurrent" or (form == "auto" and started and tokens == 1)
