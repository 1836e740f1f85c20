"""What llama.cpp's graph of a micro batch holds besides: masks, unpacked caches, copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from archcli.arith import Number, ceil_div, minimum
from archcli.graph import State, StateContent, StateKind
from archcli.graph.kept import FP32
from archcli.measure.kvcache.engine import InferenceEngine
from archcli.modules.stored.formats import CACHED
from archcli.wings.serving.memory.reserved.reserves import reserves_of
from archcli.wings.serving.memory.traced import TracedPass

INDEX_KEYS = StateContent.INDEX_KEYS
HALF = 2
"""Bytes of a number of a mask, or of an unpacked cache."""


def graph_bytes(
    run: TracedPass, engine: InferenceEngine, context: Number, sequences: Number, cache_dtype: str | None
) -> Callable[[str], Number]:
    """Bytes that an operation's moment holds besides, by its path, where a sequence has so many tokens."""
    mask = mask_bytes(run, engine, context)
    if cache_dtype not in CACHED:
        return lambda path: mask  # noqa: ARG005
    # attention over a cache in blocks reads it unpacked, one layer at a time
    unpacked = Counter[str]()
    for path, state, cells in _held(run, engine, context):
        unpacked[_module(path)] += state.per_token(1) * cells * sequences * HALF

    def held(path: str) -> Number:
        return mask + (unpacked[_module(path)] if path.endswith(".attend") else 0)

    return held


def mask_bytes(run: TracedPass, engine: InferenceEngine, context: Number) -> Number:
    """Bytes of the masks: one for all layers without a window, one for each window, one for indexers."""
    kinds = {(state.holds is INDEX_KEYS, cells) for _, state, cells in _held(run, engine, context)}
    return sum(cells for _, cells in kinds) * _new(run) * HALF


def copied_inputs(
    run: TracedPass, engine: InferenceEngine, context: Number, d_model: Number, *, first: bool
) -> Number:
    """Bytes of a card's further copies of what enters it, while passes follow each other over several."""
    copies = reserves_of(engine).copies
    # the first card has the embedding's tokens, others what the card before hands on, too
    entering = (1 if first else 2) * d_model * _new(run) * FP32
    return (copies - 1) * mask_bytes(run, engine, context) + copies * entering


def _held(run: TracedPass, engine: InferenceEngine, context: Number) -> Iterator[tuple[str, State, Number]]:
    """(path, state, cells of a sequence) of each row that caches tokens."""
    for row in run.rows:
        for state in row.states:
            if state.kind in {StateKind.TOKENS, StateKind.WINDOW} and state.entry is None:
                windowed = state.kind is StateKind.WINDOW
                tokens = minimum(context, state.tokens + _new(run)) if windowed else context
                yield row.path, state, ceil_div(tokens, engine.cache_block) * engine.cache_block


def _new(run: TracedPass) -> Number:
    return run.request.seq_len * run.request.batch_size


def _module(path: str) -> str:
    return path.rpartition(".")[0]
