"""Sparse masks: patterns with gaps.

Each states the count of its pairs in closed form, which tests hold against brute force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, at_most, maximum, minimum, triangle
from archcli.ops.mask import Mask


def floor_sum(n: Number, step: Number) -> Number:
    """0 // step + 1 // step + … + (n - 1) // step."""
    whole = n // step
    return step * triangle(whole - 1) + (n - whole * step) * whole


def capped_sum(n: Number, cap: Number) -> Number:
    """min(1, cap) + min(2, cap) + … + min(n, cap)."""
    inside = minimum(n, cap)
    return triangle(inside) + (n - inside) * cap


class CausalPattern(Mask):
    """Base of causal masks where the number of visible keys depends on the query's position alone."""

    __slots__ = ()

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self.upto(past + new) - self.upto(past)

    def upto(self, n: Number) -> Number:
        """Pairs of the first n queries."""
        raise NotImplementedError

    def covers(self, new: int, visible: int) -> bool:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Dilated(CausalPattern):
    """The query and every dilation-th key before it, window of them in all.

    Longformer, arXiv:2004.05150 section 3.1.
    """

    window: Number
    dilation: Number
    bounded: ClassVar[bool] = True

    def upto(self, n: Number) -> Number:
        inside = minimum(n, self.window * self.dilation)
        return inside + floor_sum(inside, self.dilation) + (n - inside) * self.window

    def allows(self, query: Any, key: Any) -> Any:
        gap = query - key
        return (gap >= 0) & (gap % self.dilation == 0) & (gap < self.window * self.dilation)

    def keep(self, past: Number) -> Number:
        return minimum(past, (self.window - 1) * self.dilation)


@dataclass(frozen=True, slots=True, eq=False)
class Strided(CausalPattern):
    """The stride newest keys, and every stride-th key before.

    Sparse Transformer, arXiv:1904.10509 section 4.2, both heads merged.
    """

    stride: Number

    def upto(self, n: Number) -> Number:
        return capped_sum(n, self.stride) + floor_sum(n, self.stride)

    def allows(self, query: Any, key: Any) -> Any:
        gap = query - key
        return (gap >= 0) & ((gap < self.stride) | (gap % self.stride == 0))


@dataclass(frozen=True, slots=True, eq=False)
class Fixed(CausalPattern):
    """The query's block of `stride` keys, and the last `summary` keys of every block before.

    arXiv:1904.10509 section 4.2.
    """

    stride: Number
    summary: Number

    def upto(self, n: Number) -> Number:
        whole = n // self.stride
        in_block = whole * triangle(self.stride) + triangle(n - whole * self.stride)
        return in_block + self.summary * floor_sum(n, self.stride)

    def allows(self, query: Any, key: Any) -> Any:
        same = query // self.stride == key // self.stride
        return (key <= query) & (same | (key % self.stride >= self.stride - self.summary))


@dataclass(frozen=True, slots=True, eq=False)
class WindowAndGlobal(Mask):
    """`reach` keys to either side; the first `n_global` tokens see all and are seen by all.

    Longformer, arXiv:2004.05150 section 3.1.
    """

    reach: Number
    n_global: Number
    causal: ClassVar[bool] = False

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new, past + new) - self._upto(past, past + new)

    def _upto(self, queries: Number, n: Number) -> Number:
        """Pairs of the first `queries` of n tokens: near and global ones, less those that are both."""
        seen, seeing = minimum(self.n_global, n), minimum(self.n_global, queries)
        both = self._band(seeing, n) + self._band(seeing, maximum(queries, seen)) - self._band(seeing, seen)
        return self._band(queries, n) + seeing * n + (queries - seeing) * seen - both

    def _band(self, queries: Number, n: Number) -> Number:
        """Pairs of the first `queries` of n tokens that lie within reach."""
        before = self._reached(queries)
        after = self._reached(n) - self._reached(n - queries)
        return queries + before + after

    def _reached(self, n: Number) -> Number:
        """min(0, reach) + min(1, reach) + … + min(n - 1, reach)."""
        return capped_sum(n - 1, self.reach)

    def allows(self, query: Any, key: Any) -> Any:
        near = (query - key <= self.reach) & (key - query <= self.reach)
        return near | (key < self.n_global) | (query < self.n_global)

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, self.reach + 1)
