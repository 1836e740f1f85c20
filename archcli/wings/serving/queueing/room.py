"""The room of a replica's cache for a simulated server, by the memory that `archcli memory` counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import State, StateKind
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.wings.serving.memory.answers.fit import most_sequences
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.queueing.scheduler import CacheRoom

WHOLE = 1 << 40
"""Tokens of a page of a cache that does not grow: each sequence has one."""


class Lengths(NamedTuple):
    """Tokens of the shortest request and of the longest, with those it asks for."""

    shortest: int
    longest: int


def cache_room(
    question: PredictQuestion, lengths: Lengths, in_flight: int, pools: Mapping[str, float] | None = None
) -> CacheRoom:
    """The pages of a replica's cache beside weights and temporaries, with so many sequences in flight.

    A sequence takes bytes as a line through those of the shortest request and of the longest: exact where
    all layers see the whole context, or none does. pools: of an engine that cuts its memory.
    Raises ArchError where there is no room for one sequence.
    """
    memory, plan = question.memory().changed(new=0), question.plan
    engine = memory.settings.engine or NO_ENGINE
    # of each group with a cache of its own, in all replicas, one sequence
    groups = plan.dp * plan.dp_attention
    few, many = (-(-tokens // engine.cache_block) for tokens in lengths)
    shortest, longest = (_bytes(memory, groups, tokens) for tokens in lengths)
    page, page_bytes, fixed = engine.cache_block, longest / many, 0.0
    if longest > shortest:
        page_bytes = (longest - shortest) / (many - few)
        fixed = max(0.0, shortest / page_bytes - few)
    elif many > few:  # it does not grow
        page, page_bytes = WHOLE, longest
    free = _free(memory.changed(seq_len=lengths.longest), groups, in_flight)
    room = CacheRoom(free / page_bytes, page, fixed, page_bytes)
    room = _in_pools(question, free, pools) or room
    return room._replace(pages=room.pages * plan.dp_attention, sequences=room.sequences * plan.dp_attention)


def _in_pools(question: PredictQuestion, free: float, pools: Mapping[str, float] | None) -> CacheRoom | None:
    """The cache of an engine with a pool for each kind of state; None where all is in one.

    States take `states` of what tokens take, in `slots` for each sequence. Of a window, the engine keeps
    `windows` of the tokens that it keeps of whole contexts, whatever the window.
    """
    settings, engine = question.settings, question.settings.engine or NO_ENGINE
    size = CacheSize(question.plan.share(question.model))
    dtypes = CacheDtypes(settings.cache_dtype or settings.dtype).in_engine(engine, settings.dtype)

    def of(kind: StateKind, held: Callable[[State], Number]) -> float:
        return float(dtypes.bytes_of(size.contents(1, kinds={kind}, held=held))) / question.plan.pp

    state = of(StateKind.FIXED, lambda state: engine.holds(state, 1))
    whole, window = (of(kind, State.per_token) for kind in (StateKind.TOKENS, StateKind.WINDOW))
    if pools is None or not whole or not (state or window):
        return None
    of_tokens = free / (1 + pools["states"]) if state else free
    page_bytes = whole + pools["windows"] * window
    sequences = (free - of_tokens) // state // pools["slots"] if state else inf
    return CacheRoom(of_tokens / page_bytes, 1, 0.0, page_bytes, sequences)


SMALLER = "more devices, fewer bits (--dtype), or a shorter context"


def _free(memory: MemoryQuestion, groups: int, in_flight: int) -> float:
    """Bytes of a device that are left for a cache, beside what as many sequences take as fit."""
    most = -(-in_flight // (groups // memory.plan.dp)) * groups
    if not memory.changed(batch_size=most).fits():
        most = (most_sequences(memory, most) or 0) // groups * groups
    if not most:
        what = f"no sequence of {memory.settings.seq_len:,} tokens fits into the devices"
        raise ArchError(what, SMALLER)
    answer = memory.changed(batch_size=most).answer()
    return float(answer.largest.peak.cache) - answer.lacking(memory.device)


def _bytes(memory: MemoryQuestion, groups: int, tokens: int) -> float:
    """Bytes of the cache of one sequence of so many tokens, in a rank of each group."""
    return float(memory.changed(seq_len=tokens, batch_size=groups).answer().largest.peak.cache)
