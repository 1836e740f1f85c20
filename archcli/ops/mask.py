"""Masks: which keys a query may see.

Each counts its (query, key) pairs in closed form and says so of single positions for the torch run.

Queries are the T new tokens at positions past … past+T-1; keys are the last S positions up to the newest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, at_most, minimum, triangle


class Mask(ABC):
    """What a query at position q may attend to."""

    __slots__ = ()
    causal: ClassVar[bool] = True
    """True where a query never sees a later key."""
    bounded: ClassVar[bool] = False
    """True where `keep` has a bound, whatever the length: the cache stops growing."""

    @abstractmethod
    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        """Allowed pairs of `new` queries after `past` earlier tokens, `visible` keys in all."""

    @abstractmethod
    def allows(self, query: Any, key: Any) -> Any:
        """Whether a query position sees a key position, of ints or, by broadcasting, of torch tensors."""

    def keep(self, past: Number) -> Number:
        """The number of `past` tokens that later queries can still see, so that the cache keeps them."""
        return past

    def covers(self, new: int, visible: int) -> bool:
        """Whether only later keys are masked, if any, for `new` queries over `visible` keys."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Bidirectional(Mask):
    """Every key: an encoder's mask, and cross attention's."""

    causal: ClassVar[bool] = False

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return new * visible

    def allows(self, query: Any, key: Any) -> Any:
        return (query >= key) | (
            query < key
        )  # true of each pair, in the shape of all; a source has positions of its own


@dataclass(frozen=True, slots=True, eq=False)
class Causal(Mask):
    """Every key up to the query itself."""

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return triangle(past + new) - triangle(past)

    def allows(self, query: Any, key: Any) -> Any:
        return key <= query


@dataclass(frozen=True, slots=True, eq=False)
class SlidingWindow(Mask):
    """The query and the window-1 keys before it (Longformer, arXiv:2004.05150; Mistral, arXiv:2310.06825)."""

    window: Number
    bounded: ClassVar[bool] = True

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new) - self._upto(past)

    def allows(self, query: Any, key: Any) -> Any:
        return (key <= query) & (query - key < self.window)

    def keep(self, past: Number) -> Number:
        return minimum(past, self.window - 1)

    def covers(self, new: int, visible: int) -> bool:
        return at_most(visible, self.window)

    def _upto(self, n: Number) -> Number:
        inside = minimum(n, self.window)
        return triangle(inside) + (n - inside) * self.window


@dataclass(frozen=True, slots=True, eq=False)
class Chunked(Mask):
    """The keys of the query's chunk, up to the query (Llama 4). The cache keeps one chunk of tokens."""

    chunk: Number
    bounded: ClassVar[bool] = True

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self._upto(past + new) - self._upto(past)

    def allows(self, query: Any, key: Any) -> Any:
        return (key <= query) & (query // self.chunk == key // self.chunk)

    def keep(self, past: Number) -> Number:
        return minimum(past, self.chunk - 1)

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

    top_k: Number

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
    allowed = mask.allows(positions[:, None], key_positions(torch, positions, visible)[None, :])
    if selected is None:
        return allowed
    chosen = torch.zeros((*selected.shape[:2], visible), dtype=torch.bool, device=selected.device)
    chosen = chosen.scatter(-1, selected, torch.ones_like(selected, dtype=torch.bool))
    return (chosen & allowed).unsqueeze(1)
