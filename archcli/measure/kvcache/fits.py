"""How many tokens and sequences fit into a memory, beside the weights or alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.measure.kvcache.cache_dtypes import CacheDtypes
from archcli.measure.kvcache.cache_size import CacheSize
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model

Record = dict[str, Any]


def fits(
    model: Model, size: CacheSize, memory_bytes: int, context: int, batch_size: int, dtypes: CacheDtypes
) -> Record:
    """Tokens (of `batch_size` sequences) and sequences (of `context` tokens) that fit into the memory.

    Once with the weights in it, quantized as the model says and else at the same dtype, once for the cache
    alone. None means that there is no bound, as every layer has a window or a constant state.
    """
    weights = weight_bytes(model, shape_pass(model).rows, dtypes.dtype)
    per_sequence = dtypes.bytes_of(size.contents(context))

    def held(tokens: int) -> int:
        return dtypes.bytes_of(size.contents(tokens, batch_size))

    def both(budget: int) -> Record:
        return {
            "tokens": longest(held, budget),
            "sequences": max(budget, 0) // per_sequence if per_sequence else None,
        }

    return {
        "memory_bytes": memory_bytes,
        "weights_bytes": weights,
        "beside_weights": both(memory_bytes - weights),
        "cache_alone": both(memory_bytes),
    }


def longest(held: Callable[[int], int], budget: int) -> int | None:
    """The longest context that holds no more bytes than the budget; None where they stop growing.

    Doubling, then halving the interval.
    """
    low, high = 0, 1
    while held(high) <= budget:
        low, high = high, 2 * high
        if held(high) == held(low):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if held(middle) <= budget else (low, middle)
    return low
