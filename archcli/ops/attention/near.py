"""Masks of keys near the query: on both sides, beside a source, or beside every n-th block.

Queries are T new tokens, keys S tokens up to the newest, and behind them N of a source. B batch, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, at_most, floor_sum, maximum
from archcli.ops.attention.block_sums import NearAndSums
from archcli.ops.attention.mask import Causal, CausalPattern, Mask, capped_sum, key_positions


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


@dataclass(frozen=True, slots=True, eq=False)
class BlockSparse(CausalPattern):
    """The query's block of b tokens and the l - 1 blocks before it, and of those before every s-th.

    Phi-3-small, arXiv:2404.14219 section 2. Head h sees the block of index k where (k + h + 1) mod s is 0;
    without `heads` all see the same ones, as the first does. `heads` is how many there are, a multiple of s,
    so that each block is seen by an equal share of them.
    """

    kind: ClassVar[str] = "block_sparse"
    block: Number
    near: Number
    stride: Number
    heads: Number | None = None

    @property
    def extent(self) -> Number:
        return self.block * self.near

    def pairs_of(self, heads: Number, new: Number, past: Number, visible: Number) -> Number:
        if self.heads is None:
            return heads * self.pairs(new, past, visible)
        near = self._near(past + new) - self._near(past)
        far = Causal().pairs(new, past, visible) - near
        return heads * near + heads // self.stride * far

    def upto(self, n: Number) -> Number:
        # of s blocks in a row the last is seen: one for each b s tokens that lie before the near ones
        far = floor_sum(self._beyond(n), self.block * self.stride)
        return self._near(n) + self.block * far

    def _near(self, n: Number) -> Number:
        """Pairs of the first n queries with keys of the near blocks."""
        hidden = self.block * floor_sum(self._beyond(n), self.block)
        return Causal().pairs(n, 0, n) - hidden

    def _beyond(self, n: Number) -> Number:
        """How many of the first n queries have blocks before the near ones."""
        return maximum(n - (self.near - 1) * self.block, 0)

    def allows(self, query: Any, key: Any) -> Any:
        return self._seen_by(query, key, 0)

    def _seen_by(self, query: Any, key: Any, head: Any) -> Any:
        of_query, of_key = query // self.block, key // self.block
        strided = (of_key + head + 1) % self.stride == 0
        return (key <= query) & ((of_query - of_key < self.near) | strided)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key: [T, S], or [1, H, T, S] where heads differ."""
        queries, keys = positions[:, None], key_positions(torch, positions, visible)[None, :]
        if self.heads is None:
            return self.allows(queries, keys)
        heads = torch.arange(self.heads, device=positions.device)[:, None, None]
        # with an axis of sequences: of three axes torch's fused kernels take no mask
        return self._seen_by(queries, keys, heads).unsqueeze(0)

    def example(self, size: int = 9, largest: int = 3) -> tuple[tuple[bool, ...], ...]:
        """Whether each of a few queries sees each block, by its first head."""
        small = replace(self, block=1, near=min(self.near, 2), stride=min(self.stride, largest), heads=None)
        return tuple(tuple(bool(small.allows(query, key)) for key in range(size)) for query in range(size))
