"""Chunks of a scan: how many there are, the pairs of tokens that share one, and a scan within one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from archcli.arith import Number, ceil_div, minimum
from archcli.graph import Part
from archcli.ops.attention.mask import Chunked

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


def by_head(torch: Any, x: Any) -> Any:
    """Heads x [B, T, H, d] as [B H, T, d] in float32 at least: one copy, where a view cannot do."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.transpose(1, 2).to(wide, memory_format=torch.contiguous_format).flatten(0, 1)


def steps(form: Form, tokens: int, *, started: bool) -> bool:
    """Whether a run of this many tokens, with a state that was `started` before, goes token by token."""
    return form == "recurrent" or (form == "auto" and started and tokens == 1)


def before_last(tokens: Number, chunk: Number) -> Number:
    """Tokens before the last chunk: those whose state a later token of the pass reads."""
    return chunk * (chunk_count(tokens, chunk) - 1)


def after_first(tokens: Number, chunk: Number) -> Number:
    """Tokens after the first chunk: they read a state computed in this pass."""
    return tokens - minimum(chunk, tokens)


def reached(part: Part, flops: Number, *operands: int) -> Part:
    """The part whose gradients of these operands a run computes for fewer tokens."""
    backward = [
        replace(back, executed=flops) if i in operands else back for i, back in enumerate(part.backward)
    ]
    return replace(part, backward=tuple(backward))


CHUNK = 64
"""Tokens that an element-wise scan computes at once, a bound of its memory."""


def linear_scan(torch: Any, a: Any, b: Any, before: Any, axis: int = 1) -> tuple[Any, Any]:
    """All h of decays a and inputs b, from h_0 = before, and the last h, a tensor of its own.

    Tokens lie along `axis`, which h_0 lacks. One product and sum for each token: on CPU 20 times as fast as
    doubling spans, which reads and writes all states of a chunk log2(T) times.
    """
    states = []
    for decay, added in zip(a.unbind(axis), b.unbind(axis), strict=True):
        before = torch.addcmul(added, decay, before)
        states.append(before)
    return torch.stack(states, axis), before
