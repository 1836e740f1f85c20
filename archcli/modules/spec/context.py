"""Context: a layer's inputs besides the residual stream.

Explicit, so that no module has hidden state and the caller owns the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.ops import Positions

Kept = tuple[Any, ...] | None
"""What a module returned last time for its cache; empty for one that starts a cache, None for none."""


class LayerCache(NamedTuple):
    """The states that a layer caches between calls, of `length` tokens; empty without states."""

    length: Number
    states: tuple[Any, ...]


class SharedBlocks(NamedTuple):
    """The blocks that layers of a stack share, by name; `stack` tells the keys of their weights apart."""

    stack: str
    blocks: Mapping[str, Any]


class Between(Protocol):
    """What reads or changes the hidden states between the layers of a stack."""

    def passed(self, layer: Number, x: Tensor, times: Number = 1, period: int = 1) -> Tensor:
        """The states behind a layer, which the next one reads; x is what the layer has left.

        Where `times` is above 1, the layer stands for so many, one in each `period` of layers.
        """

    def is_unread(self, layer: Number) -> bool:
        """Whether the outputs of this layer and of all later ones are unread."""


class Context(NamedTuple):
    """What a layer is given besides x: positions, earlier tokens, rotary table, cache, source, bias.

    `positions` [T] are those of the new tokens. `past` tokens came before: it only serves exact counting and
    is 0 in a torch run. `cache` is None for a pass that caches nothing, an empty tuple for one that starts a
    cache, else what the mixer returned last time. `memory` [B, S, D] is the encoder's output, `bias` [1, H,
    T, S] what a stack adds to all its attention scores, `relative` [2 s, D] its table of relative positions,
    or what the biases of a layer are made of. `shared` are the blocks that its layers share, `embedding` [B,
    T, D] what the stack was given. `layer` is the index of the layer among the `n_layers` of its stack,
    `per_layer` [B, T, L, w] what a model has for each of them. `borrowed` are the keys and values of an
    earlier layer, and what its index has chosen; `lends` whether a later one reads this layer's. `ids` [B,
    T] are those of the tokens, where a layer reads them. `out_width` is that of a mixer's result where x is
    wider. `places` [T, 2] are coordinates of tokens on a grid, or positions of pairs, which rotary tables go
    by in the place of positions. `between` is given the states behind each layer. Tokens with the same number
    in `spans` [T], from 0 on, see each other in both directions.
    """

    positions: Tensor
    past: Number = 0
    rotary: tuple[Tensor, Tensor] | None = None
    cache: tuple[Any, ...] | None = None
    memory: Tensor | None = None
    bias: Tensor | None = None
    relative: Tensor | None = None
    # read-only, as one default serves every context
    shared: SharedBlocks = SharedBlocks("", MappingProxyType({}))
    layer: Number = 0
    n_layers: Number = 1
    per_layer: Tensor | None = None
    borrowed: tuple[Tensor, ...] | None = None
    lends: bool = False
    embedding: Tensor | None = None
    ids: Tensor | None = None
    out_width: Number = None
    places: Tensor | None = None
    grid: tuple[Number, Number] | None = None
    between: Between | None = None
    spans: Tensor | None = None

    def width_of(self, x: Tensor) -> Number:
        """The width that a mixer of x returns."""
        return x.shape[-1] if self.out_width is None else self.out_width


def or_default(x: Tensor, context: Context | None) -> Context:
    """The given context, or the default: a pass over x from position 0 without a cache."""
    return context or Context(Positions("positions")(x))


class Lent(NamedTuple):
    """A lending layer's cache, and the keys and values that later layers read."""

    kept: Any
    entries: tuple[Tensor, ...]


def changed(states: Any, change: Callable[[Any], Any]) -> Any:
    """The cache of a layer as `change` makes it, with the entries that the layer lends."""
    return states._replace(kept=change(states.kept)) if isinstance(states, Lent) else change(states)


def lent(context: Context, kept: Any, entries: tuple[Tensor, ...], chosen: Tensor | None = None) -> Any:
    """A mixer's cache, with the entries that it lends if later layers read them."""
    return Lent(kept, entries if chosen is None else (*entries, chosen)) if context.lends else kept


def borrowed(context: Context) -> tuple[tuple[Tensor, ...], tuple[Any, ...] | None]:
    """An earlier layer's keys and values, and the empty cache of a layer that reads them."""
    if context.borrowed is None:
        raise ArchError("a layer with kv_from reads keys and values of an earlier layer of its stack")
    # a third entry is the choice of that layer's index
    return context.borrowed[:2], None if context.cache is None else ()


def chosen_before(context: Context) -> Tensor:
    """The keys that the index of an earlier layer has chosen."""
    if context.borrowed is None:
        raise ArchError("a layer with index_from reads the choice of an earlier layer of its stack")
    return context.borrowed[-1]
