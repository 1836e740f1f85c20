"""The number of tokens and sequences that an engine can serve in a memory, beside a prefill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.engine import ANY_ENGINE, InferenceEngine
from archcli.measure.kvcache.held import COMPUTES, held_bytes
from archcli.modules import Model
from archcli.wings.serving.memory.plan import ONE_DEVICE, DeviceMemory, Plan
from archcli.wings.serving.memory.settings import COMPUTED, MemorySettings

if TYPE_CHECKING:
    from archcli.wings.serving.memory.traced import TracedModel

Record = dict[str, Any]


MOST = 1 << 24
"""The most tokens that are tried."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A served model on the GPUs of a plan.

    size, dtypes: the cache of one rank, and its dtypes.
    architecture: of the GPUs, sm_90; empty if unknown.
    engine: it serves the sequences.
    known: keeps traced passes.
    """

    model: Model
    size: CacheSize
    dtypes: CacheDtypes
    architecture: str = ""
    plan: Plan = ONE_DEVICE
    engine: InferenceEngine = ANY_ENGINE
    known: TracedModel = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        from archcli.wings.serving.memory.traced import TracedModel  # of a memory to fill alone

        # shared by all sizes that are tried: it keeps traced passes. The class is frozen, hence __setattr__
        object.__setattr__(self, "known", TracedModel(self.model))

    def fits(self, budget: int, context: int, batch_size: int) -> dict[str, Any]:
        """Tokens and sequences that fit into a budget beside a prefill and what is beyond the model.

        tokens: of each of `batch_size` sequences, at most 2^24; sequences: of `context` tokens, None where
        they take nothing. Sequences are prefilled one after the other, each at once.
        """
        temporaries, beyond = self._pass_bytes(context)
        per_sequence = self._cache(context, 1)
        rest = max(budget - temporaries - beyond, 0)
        return {
            "tokens": self._most_tokens(budget, batch_size),
            "sequences": rest // per_sequence if per_sequence else None,
            "temporaries_bytes": temporaries,
            "beyond_bytes": beyond,
        }

    def _most_tokens(self, budget: int, batch_size: int) -> int:
        return most_beside(
            lambda tokens: self._cache(tokens, batch_size),
            cache(lambda tokens: sum(self._pass_bytes(tokens))),
            budget,
            MOST,
        )

    def _cache(self, tokens: int, batch_size: int) -> int:
        return held_bytes(self.size, self.dtypes, self.engine, tokens, batch_size)

    def _pass_bytes(self, tokens: int) -> tuple[int, int]:
        """Bytes of the largest pass of one sequence, and of the device's context and allocator."""
        from archcli.wings.serving.memory.answers.question import MemoryQuestion  # of a memory to fill alone

        dtype = self.dtypes.dtype if self.dtypes.dtype in COMPUTED else COMPUTES
        device = DeviceMemory("", 0, self.plan.tp, self.architecture)
        settings = MemorySettings(
            "serve", 1, tokens, dtype=dtype, engine=self.engine, chunk=self.engine.chunk
        )
        answer = MemoryQuestion(self.model, settings, Plan(tp=self.plan.tp), device, self.known).answer()
        # in total over the stages of the pipeline, each of which has its own
        return self.plan.pp * int(answer.largest.peak.temporaries), self.plan.pp * answer.beyond.bytes


def most_beside(
    cached: Callable[[int], int], pass_bytes: Callable[[int], int], budget: int, most: int
) -> int:
    """The largest number up to `most` whose cache and prefill fit a budget together; 0 if none.

    Calls `pass_bytes` rarely: it traces a prefill, and `cached` is a formula. `pass_bytes` grows with the
    number: a prefill of few tokens gives an upper bound of the number, one of too many a lower bound.
    """
    least = 1
    while True:
        most = most_within(cached, budget - pass_bytes(least), most)
        if most <= least or cached(most) + pass_bytes(most) <= budget:
            return most
        before, least = least, max(least, most_within(cached, budget - pass_bytes(most), most))
        if least - before <= (most - before) // 2:
            return most_within(lambda number: cached(number) + pass_bytes(number), budget, most, least)


def most_within(needed: Callable[[int], int], budget: int, most: int, least: int = 1) -> int:
    """The largest number from `least` to `most` that needs no more than the budget, 0 where none does.

    The need grows almost linearly with the number. So the next try is where the line through the last two
    ends crosses the budget, and every third try halves the interval.
    """
    low, high = least, most
    under, over = budget - needed(low), needed(high) - budget
    if under < 0 or over <= 0:
        return 0 if under < 0 else most
    tries = 0
    while high - low > 1:
        tries += 1
        # regula falsi alone creeps where the curve bends, as one end then stays; halving bounds the tries
        step = (high - low) // 2 if tries % 3 == 0 else (high - low) * under // (under + over)
        # strictly inside, as the interval would not shrink otherwise
        middle = min(max(low + step, low + 1), high - 1)
        rest = budget - needed(middle)
        low, under, high, over = (middle, rest, high, over) if rest >= 0 else (low, under, middle, -rest)
    return low
