"""How many tokens and sequences fit into a memory, beside the weights or alone."""

from __future__ import annotations

from typing import Any

from archcli.measure.kvcache.cache_size import CacheSize
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.formats import cache_bytes

Record = dict[str, Any]


def fits(
    model: Model, size: CacheSize, memory_bytes: int, context: int, batch_size: int, dtype: str
) -> Record:
    """Tokens (of `batch_size` sequences) and sequences (of `context` tokens) that fit into the memory.

    Once with the weights in it, quantized as the model says and else at the same dtype, once for the cache
    alone. None means that there is no bound, as every layer has a window.
    """
    weights = weight_bytes(model, shape_pass(model).rows, dtype)
    per_sequence = cache_bytes(size.elements(context), dtype)

    def both(budget: int) -> Record:
        return {
            "tokens": _most_tokens(size, budget, batch_size, dtype),
            "sequences": max(budget, 0) // per_sequence if per_sequence else None,
        }

    return {
        "memory_bytes": memory_bytes,
        "weights_bytes": weights,
        "beside_weights": both(memory_bytes - weights),
        "cache_alone": both(memory_bytes),
    }


def _most_tokens(size: CacheSize, budget: int, batch_size: int, dtype: str) -> int | None:
    """The longest context whose cache is within the budget: doubling, then halving the interval."""

    def held(tokens: int) -> int:
        return size.elements(tokens, batch_size)

    def fit(tokens: int) -> bool:
        within: bool = cache_bytes(held(tokens), dtype) <= budget
        return within

    low, high = 0, 1
    while fit(high):
        low, high = high, 2 * high
        if held(high) == held(low):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low
