"""InferenceEngine: what an engine does with memory: its cache, the chunks of prompts, its share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, Protocol

from archcli.arith import Number, ceil_div, minimum
from archcli.errors import ArchError, either
from archcli.graph import State, StateKind
from archcli.modules import Model
from archcli.modules.spec.arguments import EngineName
from archcli.modules.spec.values import Conversion, refused

CACHING = ("prefill", "decode", "serve")
"""Phases that an engine runs."""


@dataclass(frozen=True, slots=True)
class InferenceEngine:
    """An engine that runs inference, by the facts of `archcli engines NAME`.

    serves: it allocates the cache once and writes in place, and attention of any kind is one kernel.
    formats: of weights that it reads; of none without an entry archcli knows nothing.
    unusual: formats among them that few serve with: taken by --dtype alone.
    native_only: formats among them that it does not unpack, for devices that multiply them as they are.
    cache_dtypes: types of a cache; the first of them and the model's own need no option.
    cache_block: the tokens of a cache are a multiple of these.
    window_extra: tokens that a cache holds beyond a window.
    chunk: tokens of a prompt that run at a time; None is all.
    utilization: the share of a device's memory that it takes.
    in_ram: parts of a model that it leaves in the memory of the CPU.
    splits_layers: several devices have whole layers each, one after the other, and a pass is not cut into
        batches of fewer sequences.
    mxfp4_experts: the multiples to which it pads the width of the model and that of an expert, in mxfp4.
    recurrent_dtype, convolution_dtype: of states and of convolutions' inputs; empty is as computed.
    max_sequences: the most that a replica runs at once; None is any number.
    mixes_prompts: it runs prompts in one pass with the tokens of other sequences.
    redundant_experts: where ep does not divide the experts, it copies some of them.
    reserves: what else it takes memory for; the wing `serving` knows it.
    margin: bytes that it was seen to take beyond the count; of training shares of the count.
    adapters: how many it has loaded beside the weights; 0 without.
    """

    name: EngineName = "none"
    title: str = "eager torch"
    serves: bool = False
    formats: tuple[str, ...] = ()
    cache_dtypes: tuple[str, ...] = ()
    cache_block: int = 1
    window_extra: int = 0
    chunk: int | None = None
    utilization: float = 1.0
    in_ram: tuple[str, ...] = ()
    splits_layers: bool = False
    native_only: tuple[str, ...] = ()
    recurrent_dtype: str = ""
    convolution_dtype: str = ""
    max_sequences: int | None = None
    mixes_prompts: bool = False
    redundant_experts: bool = False
    mxfp4_experts: tuple[int, ...] = ()
    reserves: Any = None
    unusual: tuple[str, ...] = ()
    margin: int = 0
    training_margin: float = 0.0
    adapters_margin: float = 0.0
    adapters: int = 0

    def __hash__(self) -> int:
        return hash(
            (self.name, self.chunk, self.adapters)
        )  # of few fields: settings with it are keys of much

    @property
    def offered(self) -> set[str]:
        """The formats that people serve with."""
        return {*self.formats} - {*self.unusual}

    def without_padding(self) -> InferenceEngine:
        """The engine without the padding of its mxfp4 experts."""
        return replace(self, mxfp4_experts=())

    def holds(self, state: State, tokens: Number) -> Number:
        """Elements that the engine allocates for a state after so many tokens."""
        if state.tokens is None:
            return state.elements if state.in_engines is None else state.in_engines
        if self.cache_block == 1 and not self.window_extra:
            return state.elements
        if state.entry is not None:
            return state.elements
        if state.kind is StateKind.SOURCE:
            return state.elements // state.tokens * self._padded(state.tokens)
        # a window keeps fewer tokens than there are
        kept = state.tokens + self.window_extra if state.tokens < tokens else state.tokens
        return state.elements // state.tokens * self._padded(minimum(kept, tokens))

    def _padded(self, tokens: Number) -> Number:
        return ceil_div(tokens, self.cache_block) * self.cache_block

    def check_cache(self, dtype: str) -> None:
        """Raise ArchError for a type of cache that the engine does not keep."""
        from archcli.modules.stored.formats import PAIR  # of a named cache alone

        unknown = [half for half in dtype.split(PAIR) if half not in self.cache_dtypes]
        if self.cache_dtypes and unknown:
            what = f"{self.title} keeps no cache in {unknown[0]}"
            raise ArchError(what, f"--kv-dtype {either(self.cache_dtypes)}")


def _engine(value: object) -> InferenceEngine | None:
    if value is not None and not isinstance(value, InferenceEngine):
        raise refused(value, "an InferenceEngine")
    return value


ChosenEngine = Annotated[InferenceEngine | None, Conversion("an InferenceEngine", _engine)]
"""The annotation of a record's field."""
NO_ENGINE = InferenceEngine()
"""Eager torch: the model as archcli builds it."""
ANY_ENGINE = InferenceEngine("vllm", "an engine", serves=True)
"""What all engines that serve have in common; of settings that name none."""


class SharedModel(Protocol):
    """A parallel plan: tensor-parallel ranks that share a model, and pipeline stages."""

    @property
    def tp(self) -> int:
        """Ranks that share each matrix."""

    @property
    def pp(self) -> int:
        """Stages."""

    @property
    def devices(self) -> int:
        """All ranks."""

    def inputs(self) -> dict[str, Any]:
        """The plan by JSON's keys."""

    def share(self, model: Model) -> Model:
        """The model of one rank."""


class WholeModel(NamedTuple):
    """One device, which has all of a model."""

    tp: int = 1
    pp: int = 1
    devices: int = 1

    def inputs(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def share(self, model: Model) -> Model:
        """The model itself."""
        return model


ALONE = WholeModel()


class CacheHolder(NamedTuple):
    """What holds a cache: the memory of a device, its architecture such as sm_90, a plan and an engine.

    model: in the form that the engine's files have; None for the form of any engine.
    """

    memory_bytes: int | None = None
    architecture: str = ""
    plan: SharedModel = ALONE
    engine: InferenceEngine = ANY_ENGINE
    model: Model | None = None
