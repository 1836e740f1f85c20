"""Passes: which forward is counted. A pass is traced once into rows; every measure is a fold over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from archcli.arith import Number, Shape
from archcli.graph import Abstract, CountTape, Row, Tensor, tree_map
from archcli.modules import Model

Phase = Literal["forward", "train", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One counted forward: its rows, and what was asked. `new` tokens enter after `past` cached ones."""

    phase: Phase
    batch_size: Number
    new: Number
    past: Number
    rows: tuple[Row, ...]


def forward_pass(
    model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, last_only: bool = False, source_len: Number | None = None
) -> Pass:
    """All tokens at once, nothing cached: what evaluation and training run. `source_len` left out is `seq_len`."""
    return _pass("forward", model, batch_size, seq_len, None, None, last_only, seq_len if source_len is None else source_len)


def train_pass(model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, source_len: Number | None = None) -> Pass:
    """The forward whose parts also carry a backward; the reader adds them."""
    return _pass("train", model, batch_size, seq_len, None, None, False, seq_len if source_len is None else source_len)


def prefill_pass(
    model: Model,
    batch_size: Number = 1,
    seq_len: Number = 2048,
    past: Number | None = None,
    *,
    last_only: bool = True,
    source_len: Number | None = None,
) -> Pass:
    """`seq_len` new tokens into a cache that is empty, or already holds `past`; logits of the last one."""
    length = seq_len if source_len is None else source_len
    return _pass("prefill", model, batch_size, seq_len, past, _cache(model, batch_size, past, length), last_only, length)


def decode_pass(model: Model, batch_size: Number = 1, past: Number | None = 2048, *, source_len: Number | None = None) -> Pass:
    """One new token against a cache of `past` tokens (None: an empty one). `source_len` left out is `past`."""
    length = (past or 1) if source_len is None else source_len
    return _pass("decode", model, batch_size, 1, past, _cache(model, batch_size, past, length), True, length)


def _cache(model: Model, batch_size: Number, past: Number | None, source_len: Number) -> tuple[Any, ...]:
    """What the cache holds after `past` tokens: the forward itself says so."""
    if past is None or (isinstance(past, int) and past == 0):
        return ()
    kept: tuple[Any, ...] = _traced(model, (batch_size, past), 0, (), True, source_len)[1]
    return kept


def _pass(
    phase: Phase, model: Model, batch_size: Number, new: Number, past: Number | None, cache: Any, last_only: bool, source_len: Number
) -> Pass:
    rows, _ = _traced(model, (batch_size, new), past or 0, cache, last_only, source_len)
    return Pass(phase, batch_size, new, past or 0, rows)


def _traced(
    model: Model, tokens: Shape, past: Number, cache: Any, last_only: bool, source_len: Number
) -> tuple[tuple[Row, ...], Any]:
    rows: list[Row] = []
    tape = CountTape(rows)
    held = tree_map(lambda x: Tensor(tape, x.value), Tensor, cache)
    shapes = [shape for shape in (tokens, model.source_shape(tokens[0], source_len)) if shape is not None]
    ids, *source = [Tensor(tape, Abstract(shape, grad=False)) for shape in shapes]
    _, kept = model.forward(ids, None, past, held, last_only, *source)
    return tuple(rows), kept
