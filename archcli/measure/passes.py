"""Passes: which forward is counted. A pass is traced once into rows; every measure is a fold over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from archcli.arith import Number
from archcli.graph import Abstract, CountTape, Row, Tensor, tree_map
from archcli.modules import Decoder

Phase = Literal["forward", "train", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One counted forward: its rows, and what was asked. `new` tokens enter after `past` cached ones."""

    phase: Phase
    batch_size: Number
    new: Number
    past: Number
    rows: tuple[Row, ...]


def forward_pass(model: Decoder, batch_size: Number = 1, seq_len: Number = 2048, *, last_only: bool = False) -> Pass:
    """All tokens at once, nothing cached: what evaluation and training run."""
    return Pass("forward", batch_size, seq_len, 0, _traced(model, batch_size, seq_len, 0, None, last_only)[0])


def train_pass(model: Decoder, batch_size: Number = 1, seq_len: Number = 2048) -> Pass:
    """The forward whose parts also carry a backward; the reader adds them."""
    return Pass("train", batch_size, seq_len, 0, _traced(model, batch_size, seq_len, 0, None, False)[0])


def prefill_pass(
    model: Decoder, batch_size: Number = 1, seq_len: Number = 2048, past: Number | None = None, *, last_only: bool = True
) -> Pass:
    """`seq_len` new tokens into a cache that is empty, or already holds `past`; logits of the last one."""
    rows = _traced(model, batch_size, seq_len, past or 0, _cache(model, batch_size, past), last_only)[0]
    return Pass("prefill", batch_size, seq_len, past or 0, rows)


def decode_pass(model: Decoder, batch_size: Number = 1, past: Number | None = 2048) -> Pass:
    """One new token against a cache of `past` tokens (None: an empty one)."""
    rows = _traced(model, batch_size, 1, past or 0, _cache(model, batch_size, past), True)[0]
    return Pass("decode", batch_size, 1, past or 0, rows)


def _cache(model: Decoder, batch_size: Number, past: Number | None) -> tuple[Any, ...]:
    """What the cache holds after `past` tokens: the forward itself says so."""
    if past is None or (isinstance(past, int) and past == 0):
        return ()
    kept: tuple[Any, ...] = _traced(model, batch_size, past, 0, (), True)[1]
    return kept


def _traced(model: Decoder, batch_size: Number, new: Number, past: Number, cache: Any, last_only: bool) -> tuple[tuple[Row, ...], Any]:
    rows: list[Row] = []
    tape = CountTape(rows)
    held = tree_map(lambda x: Tensor(tape, x.value), Tensor, cache)
    tokens = Tensor(tape, Abstract((batch_size, new), grad=False))
    _, kept = model.forward(tokens, None, past, held, last_only)
    return tuple(rows), kept
