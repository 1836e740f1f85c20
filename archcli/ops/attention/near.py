"""Masks of keys near the query on both sides of it, and of near keys beside those of a source.

Queries are T new tokens, keys S tokens up to the newest, and behind them N of a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, at_most, maximum
from archcli.ops.attention.block_sums import NearAndSums
from archcli.ops.attention.mask import Mask, capped_sum


@dataclass(frozen=True, slots=True, eq=False)
class CentredWindow(Mask):
    """`window` keys around the query, itself among them; of an even number one more behind it than before.

    T5Gemma 2's encoder (arXiv:2512.14856): w // 2 keys behind a query, and (w - 1) // 2 before it.
    """

    kind: ClassVar[str] = "centred"
    causal: ClassVar[bool] = False
    window: Number

    @property
    def extent(self) -> Number:
        return self.window

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new, past + new) - self._upto(past, past + new)

    def _upto(self, queries: Number, n: Number) -> Number:
        """Pairs of the first `queries` of n tokens."""
        before = self._reached(queries, (self.window - 1) // 2)
        behind = self._reached(n, self.window // 2) - self._reached(n - queries, self.window // 2)
        return queries + before + behind

    def _reached(self, n: Number, reach: Number) -> Number:
        """min(0, reach) + min(1, reach) + … + min(n - 1, reach)."""
        # of no token there is none: a sum up to -1 is 0, too
        return capped_sum(maximum(n - 1, 0), reach)

    def allows(self, query: Any, key: Any) -> Any:
        return (query - key <= (self.window - 1) // 2) & (key - query <= self.window // 2)

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, (self.window - 1) // 2 + 1)


@dataclass(frozen=True, slots=True, eq=False)
class NearAndSource(NearAndSums):
    """Keys of `near` tokens, and behind them `blocks` keys of a source, which every query sees."""

    kind: ClassVar[str] = "window and source"
    causal: ClassVar[bool] = True
