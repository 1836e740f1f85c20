"""How many tokens and sequences fit into a memory, and what an engine can serve beside a prefill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from archcli.measure.kvcache.cache_size import ALL, CacheDtypes, CacheSize
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import tower_bytes, weight_bytes
from archcli.modules import Model
from archcli.modules.stored.formats import FORMATS
from archcli.wings.serving.memory.engine import ANY_ENGINE, InferenceEngine
from archcli.wings.serving.memory.plan import ONE_DEVICE, DeviceMemory, Plan
from archcli.wings.serving.memory.settings import COMPUTED, MemorySettings

if TYPE_CHECKING:
    from archcli.wings.serving.memory.traced import TracedModel

Record = dict[str, Any]


def fits(
    model: Model, size: CacheSize, memory_bytes: int, context: int, batch_size: int, dtypes: CacheDtypes
) -> Record:
    """Tokens (of `batch_size` sequences) and sequences (of `context` tokens) that fit into the memory.

    `beside_weights` has the weights in memory too, quantized as the model says or else in the same dtype;
    `cache_alone` has not. None means that there is no bound, as every layer has a window or a constant state.
    Of weights whose bytes are not known, it is `cache_alone` that is told.
    """
    per_sequence = dtypes.bytes_of(size.contents(context, kinds=ALL))

    def held(tokens: int) -> int:
        return dtypes.bytes_of(size.contents(tokens, batch_size, ALL))

    def both(budget: int) -> Record:
        return {
            "tokens": longest(held, budget),
            # the budget is negative where the weights alone are larger than the memory
            "sequences": max(budget, 0) // per_sequence if per_sequence else None,
        }

    weights = None if model.as_published().unknown_form else _weights_bytes(model, dtypes.of_weights)
    return {
        "memory_bytes": memory_bytes,
        "weights_bytes": weights,
        **({} if weights is None else {"beside_weights": both(memory_bytes - weights)}),
        "cache_alone": both(memory_bytes),
    }


def _weights_bytes(model: Model, dtype: str) -> int:
    """Bytes of weights and towers, of a model without a form of its own in the dtype of the cache."""
    stored = model.as_published()
    # a format of the cache says nothing of weights that have one of their own
    dtype = COMPUTES if stored.quantization is not None and dtype in FORMATS else dtype
    towers = tower_bytes(model, dtype if dtype in COMPUTED else COMPUTES)
    return weight_bytes(stored, shape_pass(model).rows, dtype) + sum(towers.values())


def longest(held: Callable[[int], int], budget: int) -> int | None:
    """The longest context that holds no more bytes than the budget; None where they stop growing.

    Doubling, then halving the interval.
    """
    low, high = 0, 1
    while held(high) <= budget:
        low, high = high, 2 * high
        # twice the tokens take nothing more: every window is full, and no layer is without one
        if held(high) == held(low):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) <= budget else (low, middle)
    return low


COMPUTES = "bf16"
"""The dtype that a model computes in if torch does not compute in that of its cache."""
MOST = 1 << 24
"""The most tokens that are tried."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model on the GPUs of a plan whose `engine` serves sequences: `size` is the cache of one rank.

    `architecture` is that of the GPUs, such as sm_90; empty where it is not known.
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

        # one for all sizes that are tried, as it keeps what it has traced; the class is frozen
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
        """Bytes of the prefill of one sequence, and of what is beyond the model."""
        from archcli.wings.serving.memory.answers.question import MemoryQuestion  # of a memory to fill alone

        dtype = self.dtypes.dtype if self.dtypes.dtype in COMPUTED else COMPUTES
        device = DeviceMemory("", 0, self.plan.tp, self.architecture)
        settings = MemorySettings(
            "serve", 1, tokens, dtype=dtype, engine=self.engine, chunk=self.engine.chunk
        )
        answer = MemoryQuestion(self.model, settings, Plan(tp=self.plan.tp), device, self.known).answer()
        # each of the stages has its own
        return self.plan.pp * int(answer.largest.peak.temporaries), self.plan.pp * answer.beyond.bytes


def held_bytes(
    size: CacheSize, dtypes: CacheDtypes, engine: InferenceEngine, tokens: int, batch_size: int
) -> int:
    """Bytes of the caches of sequences as an engine holds them: in whole blocks, with more than a window."""
    dtypes = dtypes.in_engine(engine, dtypes.dtype if dtypes.dtype in COMPUTED else COMPUTES)
    contents = size.contents(tokens, batch_size, ALL, held=lambda state: engine.holds(state, tokens))
    return dtypes.bytes_of(contents)


def most_beside(
    cached: Callable[[int], int], pass_bytes: Callable[[int], int], budget: int, most: int
) -> int:
    """The largest number up to `most` whose cache and prefill fit a budget together; 0 if none.

    Asks `pass_bytes` seldom, as a trace of a prefill costs far more than the bytes of a cache. It grows with
    the number: no more fit than beside the prefill of few, and at least as many as beside that of too many.
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
