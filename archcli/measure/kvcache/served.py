"""What an engine can serve: tokens and sequences that fit beside a prefill, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.measure.kvcache.cache_dtypes import CacheDtypes
from archcli.measure.kvcache.cache_size import CacheSize
from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import COMPUTED, MemorySettings
from archcli.modules import Model

COMPUTES = "bf16"
"""What a model computes in where its cache is of a type that torch does not compute in."""
MOST = 1 << 24
"""The most tokens that are tried."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model on `tp` GPUs that serves sequences: `size` is the cache of one.

    `architecture` is that of the GPUs, such as sm_90; empty where it is not known.
    """

    model: Model
    size: CacheSize
    dtypes: CacheDtypes
    architecture: str = ""
    tp: int = 1

    def fits(self, budget: int, context: int, batch_size: int) -> dict[str, Any]:
        """Tokens and sequences that fit into a budget beside a prefill and what is beyond the model.

        tokens: of each of `batch_size` sequences, at most 2^24; sequences: of `context` tokens, None where
        they take nothing. Sequences are prefilled one after the other, each at once.
        """
        temporaries, beyond = self._beside(context)
        per_sequence = self._cache(context, 1)
        rest = max(budget - temporaries - beyond, 0)
        return {
            "tokens": self._most_tokens(budget, batch_size),
            "sequences": rest // per_sequence if per_sequence else None,
            "temporaries_bytes": temporaries,
            "beyond_bytes": beyond,
        }

    def _most_tokens(self, budget: int, batch_size: int) -> int:
        """By doubling, then halving the interval."""
        low, high = 0, 1
        while high <= MOST and self._needed(high, batch_size) <= budget:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._needed(middle, batch_size) <= budget else (low, middle)
        return low

    def _needed(self, tokens: int, batch_size: int) -> int:
        return self._cache(tokens, batch_size) + sum(self._beside(tokens))

    def _cache(self, tokens: int, batch_size: int) -> int:
        return self.dtypes.bytes_of(self.size.contents(tokens, batch_size))

    def _beside(self, tokens: int) -> tuple[int, int]:
        """Bytes of the prefill of one sequence, and of what is beyond the model."""
        dtype = self.dtypes.dtype if self.dtypes.dtype in COMPUTED else COMPUTES
        device = DeviceMemory("", 0, self.tp, self.architecture)
        settings = MemorySettings("serve", 1, tokens, dtype=dtype)
        answer = MemoryQuestion(self.model, settings, Plan(tp=self.tp), device).answer()
        return int(answer.largest.peak.temporaries), answer.beyond.bytes
