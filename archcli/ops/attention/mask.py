"""Masks: which keys a query may see, patterns with gaps included.

Each counts its (query, key) pairs in closed form, which tests hold against brute force, and says for the
torch run whether one position sees another.

Queries are the T new tokens at positions past … past+T-1; keys are the last S positions up to the newest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, at_most, floor_sum, maximum, minimum, triangle
from archcli.graph import MaskTrait


class Mask(ABC):
    """What a query at position q may attend to."""

    __slots__ = ()
    kind: ClassVar[str] = "pattern"
    """The name of the pattern, in words of the YAML where it has one."""
    causal: ClassVar[bool] = True
    """True where a query never sees a later key."""
    bounded: ClassVar[bool] = False
    """True where `keep` has a bound, whatever the length: the cache stops growing."""
    compressed: ClassVar[bool] = False
    """True where a key may stand for several tokens."""

    @abstractmethod
    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        """Allowed pairs of `new` queries after `past` earlier tokens, `visible` keys in all."""

    def pairs_of(self, heads: Number, new: Number, past: Number, visible: Number) -> Number:
        """Allowed pairs of all heads together, which see the same keys unless a mask says otherwise."""
        return heads * self.pairs(new, past, visible)

    @abstractmethod
    def allows(self, query: Any, key: Any) -> Any:
        """Whether a query position sees a key position, of ints or, by broadcasting, of torch tensors."""

    def keep(self, past: Number) -> Number:
        """The number of `past` tokens that later queries can still see, so that the cache keeps them."""
        return past

    @property
    def span(self) -> Number:
        """The most keys that a query sees, itself among them; 0 for all before it."""
        return 0

    @property
    def extent(self) -> Number | None:
        """The number that sizes the pattern: a window, a chunk, a stride; None without one."""
        return None

    @property
    def trait(self) -> MaskTrait:
        """The pattern by name, and its size."""
        return MaskTrait(self.kind, self.extent)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key: [T, S], or [B, 1, T, S] by the keys `selected` [B, T, k] for each."""
        allowed = self.allows(positions[:, None], key_positions(torch, positions, visible)[None, :])
        if selected is None:
            return allowed
        return (chosen_keys(torch, selected, visible) & allowed).unsqueeze(1)

    def covers(self, new: int, visible: int) -> bool:
        """Whether only later keys are masked, if any, for `new` queries over `visible` keys."""
        return True

    def example(self, size: int = 9, largest: int = 3) -> tuple[tuple[bool, ...], ...]:
        """Whether each of a few queries sees each key, the pattern made small so that its shape shows."""
        this: Any = self  # each pattern is a dataclass of numbers, which the base cannot say
        numbers = asdict(this)
        factor = largest / max(numbers.values(), default=largest)
        # what is small stays as it is: a step of a dilated window, a first token that all see
        small = {
            name: number if number <= largest else max(1, round(number * factor))
            for name, number in numbers.items()
        }
        pattern = replace(this, **small)
        tokens = range(size)
        return tuple(tuple(bool(pattern.allows(query, key)) for key in tokens) for query in tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Bidirectional(Mask):
    """Every key: an encoder's mask, and cross attention's."""

    kind: ClassVar[str] = "bidirectional"
    causal: ClassVar[bool] = False

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return new * visible

    def allows(self, query: Any, key: Any) -> Any:
        # true of every pair, broadcast to the shape of all; a source has positions of its own
        return (query >= key) | (query < key)


@dataclass(frozen=True, slots=True, eq=False)
class PatchWindows(Mask):
    """The patches of the query's window of `side` x `side`, of a grid of rows and columns.

    Windows at the lower and right border are cut off (Qwen2.5-VL).
    """

    kind: ClassVar[str] = "patch_window"
    causal: ClassVar[bool] = False
    rows: Number
    columns: Number
    side: Number

    @property
    def extent(self) -> Number:
        return self.side

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        # windows are a x b patches, with all pairs of heights a and widths b: the sum is a product
        return self._squares(self.rows) * self._squares(self.columns)

    def _squares(self, n: Number) -> Number:
        """Sum of the squared lengths of the pieces of `side` that n is cut into."""
        rest = n - n // self.side * self.side
        return n // self.side * self.side**2 + rest**2

    def allows(self, query: Any, key: Any) -> Any:
        same_rows = query // self.columns // self.side == key // self.columns // self.side
        return same_rows & (query % self.columns // self.side == key % self.columns // self.side)

    def covers(self, new: int, visible: int) -> bool:
        return at_most(self.rows, self.side) and at_most(self.columns, self.side)


@dataclass(frozen=True, slots=True, eq=False)
class Causal(Mask):
    """Every key up to the query itself."""

    kind: ClassVar[str] = "causal"

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return triangle(past + new) - triangle(past)

    def allows(self, query: Any, key: Any) -> Any:
        return key <= query


@dataclass(frozen=True, slots=True, eq=False)
class SlidingWindow(Mask):
    """The query and the window-1 keys before it (Longformer, arXiv:2004.05150; Mistral, arXiv:2310.06825)."""

    kind: ClassVar[str] = "window"
    window: Number
    bounded: ClassVar[bool] = True

    @property
    def extent(self) -> Number:
        return self.window

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new) - self._upto(past)

    def allows(self, query: Any, key: Any) -> Any:
        return (key <= query) & (query - key < self.window)

    def keep(self, past: Number) -> Number:
        return minimum(past, self.window - 1)

    @property
    def span(self) -> Number:
        return self.window

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, self.window)

    def _upto(self, n: Number) -> Number:
        inside = minimum(n, self.window)
        return triangle(inside) + (n - inside) * self.window


@dataclass(frozen=True, slots=True, eq=False)
class Chunked(Mask):
    """The keys of the query's chunk, up to the query (Llama 4). The cache keeps one chunk of tokens."""

    kind: ClassVar[str] = "chunk"
    chunk: Number
    bounded: ClassVar[bool] = True

    @property
    def extent(self) -> Number:
        return self.chunk

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new) - self._upto(past)

    def allows(self, query: Any, key: Any) -> Any:
        return (key <= query) & (query // self.chunk == key // self.chunk)

    def keep(self, past: Number) -> Number:
        return minimum(past, self.chunk - 1)

    @property
    def span(self) -> Number:
        return self.chunk

    def covers(self, new: int, visible: int) -> bool:
        # cached keys may lie in the chunk before
        return at_most(visible, self.chunk) and bool(new == visible)

    def _upto(self, n: Number) -> Number:
        whole = n // self.chunk
        return whole * triangle(self.chunk) + triangle(n - whole * self.chunk)


@dataclass(frozen=True, slots=True, eq=False)
class TopK(Mask):
    """The `top_k` keys that an indexer chooses of those up to the query (DeepSeek-V3.2, arXiv:2512.02556).

    Which they are depends on the tokens: `allows` is true of every key that may be chosen.
    """

    kind: ClassVar[str] = "top_k"
    top_k: Number

    @property
    def extent(self) -> Number:
        return self.top_k

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return SlidingWindow(self.top_k).pairs(new, past, visible)

    def allows(self, query: Any, key: Any) -> Any:
        return key <= query

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, self.top_k)


def key_positions(torch: Any, positions: Any, visible: int) -> Any:
    """Positions of the visible keys, which are those up to the newest of the tokens at `positions`."""
    return positions[-1] + 1 - visible + torch.arange(visible, device=positions.device)


def visibility(torch: Any, mask: Mask, positions: Any, visible: int, selected: Any = None) -> Any:
    """Whether a query sees a key: [T, S], or [B, 1, T, S] by the keys `selected` [B, T, k] for each query."""
    return mask.sees(torch, positions, visible, selected)


def chosen_keys(torch: Any, selected: Any, visible: int) -> Any:
    """Whether each of the visible keys is one of those `selected` [B, T, k] for a query, [B, T, S]."""
    none = torch.zeros((*selected.shape[:-1], visible), dtype=torch.bool, device=selected.device)
    return none.scatter(-1, selected, torch.ones_like(selected, dtype=torch.bool))


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

    kind: ClassVar[str] = "dilated"
    window: Number
    dilation: Number
    bounded: ClassVar[bool] = True

    @property
    def extent(self) -> Number:
        return self.window

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

    kind: ClassVar[str] = "strided"
    stride: Number

    @property
    def extent(self) -> Number:
        return self.stride

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

    kind: ClassVar[str] = "fixed"
    stride: Number
    summary: Number

    @property
    def extent(self) -> Number:
        return self.stride

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

    kind: ClassVar[str] = "longformer"
    reach: Number
    n_global: Number
    causal: ClassVar[bool] = False

    @property
    def extent(self) -> Number:
        return 2 * self.reach

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
