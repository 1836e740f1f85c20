"""What an engine holds of a cache, and how many tokens and sequences fit into a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.measure.kvcache.cache_size import ALL, CacheDtypes, CacheSize
from archcli.measure.kvcache.engine import InferenceEngine
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import tower_bytes, weight_bytes
from archcli.modules import Model
from archcli.modules.stored.dtypes import COMPUTED
from archcli.modules.stored.formats import FORMATS

Record = dict[str, Any]
LARGEST_BLOCK = 1 << 16
"""No engine's block has more tokens."""
COMPUTES = "bf16"
"""The dtype that a model computes in if torch does not compute in that of its cache."""


def fits(
    model: Model,
    size: CacheSize,
    memory_bytes: int,
    context: int,
    batch_size: int,
    dtypes: CacheDtypes,
    pool: Any = None,
) -> Record:
    """Tokens (of `batch_size` sequences) and sequences (of `context` tokens) that fit into the memory.

    `beside_weights` has the weights in memory too, quantized as the model says or else in the same dtype;
    `cache_alone` has not. None means that there is no bound, as every layer has a window or a constant state.
    Where the bytes of the weights are not known, `cache_alone` is all that is reported. A `pool` is one
    whose layers share pages.
    """

    def held(tokens: int, sequences: int = batch_size) -> int:
        of_pages = pool and pool.bytes_of(tokens, sequences)
        return of_pages or dtypes.bytes_of(size.contents(tokens, sequences, ALL))

    per_sequence = held(context, 1)

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
        **({} if pool is None else {"pool": pool.record(memory_bytes, context)}),
    }


def _weights_bytes(model: Model, dtype: str) -> int:
    """Bytes of weights and towers: in the dtype of the cache, unless the model states its quantization."""
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
        if held(high) == held(low) and high > LARGEST_BLOCK:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) <= budget else (low, middle)
    return low


def held_bytes(
    size: CacheSize, dtypes: CacheDtypes, engine: InferenceEngine, tokens: int, batch_size: int
) -> int:
    """Bytes of the caches of sequences as an engine holds them: in whole blocks, with more than a window."""
    pool = pool_of(size, dtypes, engine)
    if pool is not None:
        return int(pool.bytes_of(tokens, batch_size))
    dtypes = dtypes.in_engine(engine, dtypes.dtype if dtypes.dtype in COMPUTED else COMPUTES)
    contents = size.contents(tokens, batch_size, ALL, held=lambda state: engine.holds(state, tokens))
    return dtypes.bytes_of(contents)


def pool_of(size: CacheSize, dtypes: CacheDtypes, engine: InferenceEngine) -> Any:
    """The pool of an engine that gives all layers pages of one size; None where each has its own."""
    return None if engine.reserves is None else engine.reserves.pool(size, dtypes, engine)
