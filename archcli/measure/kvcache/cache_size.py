"""CacheSize: the cache of a model at any batch size, length and dtype, from one trace.

The trace runs on `Deferred` numbers in place of the batch size and the length. They go through a forward like
any other `Number`: what a layer caches comes out as an expression, such as min(context, 4096) * 1024.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Row, State, StateContent, StateKind
from archcli.measure.kvcache.engine import InferenceEngine
from archcli.measure.passes import GROWING, cache_pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.modules.stored.formats import CACHED, FP8_OF_LATENTS, OF_IDS, OF_LATENTS, PAIR, cache_bytes


class Deferred:
    """A whole number that depends on sizes by name. Equal expressions are equal numbers."""

    __slots__ = ()

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value at these sizes."""
        raise NotImplementedError

    def __add__(self, number: Number) -> Deferred:
        return Operation(operator.add, self, number)

    def __radd__(self, number: Number) -> Deferred:
        return Operation(operator.add, number, self)

    def __sub__(self, number: Number) -> Deferred:
        return Operation(operator.sub, self, number)

    def __rsub__(self, number: Number) -> Deferred:
        return Operation(operator.sub, number, self)

    def __mul__(self, number: Number) -> Deferred:
        return Operation(operator.mul, self, number)

    def __rmul__(self, number: Number) -> Deferred:
        return Operation(operator.mul, number, self)

    def __floordiv__(self, number: Number) -> Deferred:
        return Operation(operator.floordiv, self, number)

    def __rfloordiv__(self, number: Number) -> Deferred:
        return Operation(operator.floordiv, number, self)

    # `arith.minimum` looks for a method of this name
    def minimum(self, number: Number) -> Deferred:
        """The smaller of two numbers."""
        return Operation(min, self, number)


@dataclass(frozen=True, slots=True)
class Unknown(Deferred):
    """A size that is known later, by its name."""

    name: str

    def at(self, sizes: Mapping[str, int]) -> int:
        """The size of this name."""
        return sizes[self.name]


@dataclass(frozen=True, slots=True)
class Operation(Deferred):
    """An operation on two numbers, at least one of which is deferred."""

    # a function of `operator` or a builtin, no lambda: two equal expressions must compare equal
    compute: Callable[[Any, Any], int]
    left: Number
    right: Number

    def at(self, sizes: Mapping[str, int]) -> int:
        """The operation on the values of both numbers."""
        return self.compute(value_at(self.left, sizes), value_at(self.right, sizes))


def value_at(number: Number, sizes: Mapping[str, int]) -> int:
    """The value of a number that may be deferred."""
    value: int = number.at(sizes) if isinstance(number, Deferred) else number
    return value


EXACT = "fp32"
"""The dtype of recurrent states in transformers, and of all states in llama.cpp, whatever the cache's."""


UNPACKED_STATES = {"nvfp4": "bf16", FP8_OF_LATENTS: "bf16"}
"""By format of the cache: the dtype of all other states in engines."""


class CacheDtypes(NamedTuple):
    """Dtypes of keys and values, of recurrent states, and of the inputs that convolutions keep.

    None: the same. A format of blocks (q8_0) stores keys and values alone; states and the
    inputs of convolutions stay in fp32, as llama.cpp keeps them.
    """

    dtype: str
    state_dtype: str | None = None
    convolution_dtype: str | None = None

    @property
    def is_packed(self) -> bool:
        """Whether keys are kept in blocks of llama.cpp's; of a pair of types those of keys come first."""
        return self.dtype.partition(PAIR)[0] in CACHED or PAIR in self.dtype

    def of(self, content: StateContent) -> str:
        """The dtype that a state of this content is kept in."""
        plain = EXACT if self.is_packed else UNPACKED_STATES.get(self.dtype, self.dtype)
        if content is StateContent.RECURRENT:
            return self.state_dtype or plain
        if content is StateContent.CONVOLUTION:
            return self.convolution_dtype or plain
        if content is StateContent.IDS:
            return OF_IDS
        if content is StateContent.OPEN_BLOCK:
            return plain
        return self.dtype

    def in_engine(self, engine: InferenceEngine, computed: str) -> CacheDtypes:
        """Dtypes in an engine: its type of cache (fp8) is not that of states.

        These are in a type of their own, or in that which is computed.
        """
        # keys and values in blocks leave all else in fp32 already: `of`
        plain = None if self.is_packed else computed
        recurrent = self.state_dtype or engine.recurrent_dtype or plain
        return CacheDtypes(self.dtype, recurrent, engine.convolution_dtype or plain)

    @property
    def of_weights(self) -> str:
        """The dtype of weights beside the cache: the cache's, where it is a format of weights."""
        return UNPACKED_STATES[self.dtype] if self.dtype == FP8_OF_LATENTS else self.dtype.partition(PAIR)[0]

    def bytes_of(self, elements: Mapping[StateContent, int]) -> int:
        """Bytes of this many elements of each content."""
        alike: Counter[tuple[str, StateContent]] = Counter()
        for content, n in elements.items():
            # added up by dtype first: widths below a byte and blocks are rounded up once, not by content
            dtype = self.of(content)
            by_content = dtype == FP8_OF_LATENTS or PAIR in dtype
            alike[dtype, content if by_content else StateContent.KEYS_VALUES] += n
        return sum(cache_bytes(n, dtype, content) for (dtype, content), n in alike.items())


OWN = (*GROWING, StateKind.FIXED)
"""States of a model's tokens, without those of an encoder's output."""
ALL = (*OWN, StateKind.SOURCE)
"""States of a model's tokens, and of an encoder's output or of images."""
SIZES = {name: Unknown(name) for name in ("batch_size", "context", "source_len")}


def state_contents(
    rows: Iterable[Row],
    kinds: Container[StateKind] = OWN,
    held: Callable[[State], Number] = attrgetter("elements"),
) -> Counter[StateContent]:
    """Cached elements of rows by content, of states of these kinds; `held` are those of one state."""
    contents: Counter[StateContent] = Counter()
    for row in rows:
        for state in row.states:
            if state.kind in kinds:
                contents[state.holds] += held(state) * row.times
    return contents


class CacheSize:
    """The cache of a model after a prefill, as a function of the sizes of the pass.

    `source_len` is the length of an encoder's sequence, left out that of the context; `media` are its tokens
    of images and sounds besides.
    """

    def __init__(self, model: Model, source_len: int | None = None, media: int = 0) -> None:
        self._source_len, self._media = source_len, media
        batch_size, context, length = SIZES.values()
        request = Request("prefill", batch_size, context, source_len=length)
        rows = cache_pass(model, request).rows
        self._layers = LayerIndex(model).by_layer(rows)
        self._states: Counter[State] = Counter()
        for row in rows:
            for state in row.states:
                # equal expressions are equal keys, so that layers that cache alike are one entry
                self._states[state] += row.times

    def elements(self, context: int, batch_size: int = 1, kinds: Container[StateKind] = OWN) -> int:
        """Cached elements after `context` tokens in all layers, of states of these kinds."""
        return sum(self.contents(context, batch_size, kinds).values())

    def contents(
        self,
        context: int,
        batch_size: int = 1,
        kinds: Container[StateKind] = OWN,
        held: Callable[[State], Number] = attrgetter("elements"),
    ) -> Counter[StateContent]:
        """The same elements by content; `held` are those of one state."""
        sizes = _sizes(context, batch_size, (self._source_len or context) + self._media)
        contents: Counter[StateContent] = Counter()
        for state, times in self._states.items():
            if state.kind in kinds:
                contents[state.holds] += times * held(_evaluated(state, sizes))
        return contents

    @property
    def growth(self) -> Counter[StateContent]:
        """Elements that each token adds before any window is full, by content."""
        # one token fills no window, so that all that grows has grown by one
        return self.contents(1, kinds=GROWING, held=State.per_token)

    def layers(self, context: int) -> Iterator[tuple[list[State], int]]:
        """The states of each distinct layer, and how many layers are like it."""
        for path, rows in self._layers.items():
            yield self.of_layer(path, context, 1), rows[0].times

    def of_layer(self, path: str, context: int, batch_size: int) -> list[State]:
        """The states of the layer at a path, without those of an encoder's output."""
        return [*chain.from_iterable(self.by_path(path, context, batch_size).values())]

    def by_path(self, path: str, context: int, batch_size: int) -> dict[str, list[State]]:
        """A layer's states by the path of the operation that leaves them."""
        # states of the source are left out below, so that its length does not matter
        sizes = _sizes(context, batch_size, 1)
        states_of: dict[str, list[State]] = {}
        for row in self._layers.get(path, ()):
            states = [_evaluated(state, sizes) for state in row.states if state.kind in OWN]
            if states:
                states_of.setdefault(row.path, []).extend(states)
        return states_of


OF_BLOCKS = "compressed"
"""Attention with one cached vector, key and value in one, for a token or a block of tokens."""


def check_cache(model: Model, dtype: str | None) -> None:
    """Raise ArchError for a dtype of latents where some layer caches something of another width.

    Also for two types of keys and values of unlike widths, whose bytes are added up together.
    """
    if dtype is not None and PAIR in dtype:
        _check_pair(model, dtype)
    if dtype != FP8_OF_LATENTS:
        return
    size = CacheSize(model)
    for layer in LayerIndex(model):
        widths = Counter[StateContent]()
        for state in size.of_layer(layer.path, 1, 1):
            widths[state.holds] += state.elements if state.tokens is not None else 0
        for content, width in widths.items():
            # heads of other attention may have as many numbers as V4's one key
            is_other = content is StateContent.KEYS_VALUES and layer.facts().kind != OF_BLOCKS
            if width and (is_other or OF_LATENTS.get(content, (0, 0))[0] != width):
                latent, index, _ = (numbers for numbers, _ in OF_LATENTS.values())
                what = f"{dtype} is of latents of {latent} and index keys of {index}"
                there = f"{what}, and {layer.path} caches {content.value} of {width:,} a token"
                raise ArchError(there, "--kv-dtype fp8 keeps any keys and values in a byte each")


def _check_pair(model: Model, dtype: str) -> None:
    size = CacheSize(model)
    for layer in LayerIndex(model):
        states = size.of_layer(layer.path, 1, 1)
        widths = {state.elements for state in states if state.holds is StateContent.KEYS_VALUES}
        if len(widths) > 1:
            what = f"{dtype}: keys and values of {layer.path} differ in width, and one type for both is known"
            raise ArchError(what, f"--kv-dtype {dtype.partition(PAIR)[0]}")


def _evaluated(state: State, sizes: Mapping[str, int]) -> State:
    tokens, in_engines = (
        None if number is None else value_at(number, sizes) for number in (state.tokens, state.in_engines)
    )
    return replace(state, elements=value_at(state.elements, sizes), tokens=tokens, in_engines=in_engines)


def _sizes(context: int, batch_size: int, source_len: int) -> dict[str, int]:
    # in the order of SIZES
    return dict(zip(SIZES, (batch_size, context, source_len), strict=True))
