"""CacheSize: the cache of a model at any batch size and length, from one trace of its states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from itertools import chain

from archcli.arith import Number
from archcli.graph import State, StateContent, StateKind
from archcli.measure.kvcache.deferred import Unknown, value_at
from archcli.measure.passes import GROWING, cache_pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request

OWN = (*GROWING, StateKind.FIXED)
"""The states of the tokens themselves, without those of an encoder's output."""
SIZES = {name: Unknown(name) for name in ("batch_size", "context", "source_len")}


class CacheSize:
    """What a model caches in a prefill, as a function of the sizes of the pass."""

    def __init__(self, model: Model) -> None:
        batch_size, context, source_len = SIZES.values()
        request = Request("prefill", batch_size, context, source_len=source_len)
        rows = cache_pass(model, request).rows
        self._layers = LayerIndex(model).by_layer(rows)
        self._elements: Counter[tuple[StateKind, StateContent, Number]] = Counter()
        for row in rows:
            for state in row.states:
                self._elements[state.kind, state.holds, state.elements] += row.times

    def elements(
        self, context: int, batch_size: int = 1, source_len: int = 1, kinds: Container[StateKind] = OWN
    ) -> int:
        """Elements of the states of these kinds after `context` tokens, in all layers."""
        return sum(self.contents(context, batch_size, source_len, kinds).values())

    def contents(
        self, context: int, batch_size: int = 1, source_len: int = 1, kinds: Container[StateKind] = OWN
    ) -> Counter[StateContent]:
        """The same elements by what they hold."""
        sizes = _sizes(context, batch_size, source_len)
        contents: Counter[StateContent] = Counter()
        for (kind, content, elements), times in self._elements.items():
            if kind in kinds:
                contents[content] += times * value_at(elements, sizes)
        return contents

    @property
    def growth(self) -> Counter[StateContent]:
        """Elements that each token adds before any window is full, by what they hold."""
        return self.contents(1, kinds=GROWING)

    def of_layer(self, path: str, context: int, batch_size: int) -> list[State]:
        """The states that the layer of a path keeps of its tokens."""
        sizes = _sizes(context, batch_size, 1)
        states = chain.from_iterable(row.states for row in self._layers.get(path, ()))
        return [_evaluated(state, sizes) for state in states if state.kind in OWN]


def _evaluated(state: State, sizes: Mapping[str, int]) -> State:
    tokens = None if state.tokens is None else value_at(state.tokens, sizes)
    return replace(state, elements=value_at(state.elements, sizes), tokens=tokens)


def _sizes(context: int, batch_size: int, source_len: int) -> dict[str, int]:
    return dict(zip(SIZES, (batch_size, context, source_len), strict=True))
