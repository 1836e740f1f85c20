"""The engine that --engine names, or the one that people use for a format on a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from archcli.errors import ArchError, either
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE, InferenceEngine
from archcli.modules import Model
from archcli.modules.spec.arguments import EngineName
from archcli.modules.stored.words import in_engine
from archcli.units import parse_bytes
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.settings import MemorySettings

OF_TORCH = ("attention", "backend")
"""Options of eager torch, which imply --engine none."""
DEFAULTS = MemorySettings()


def take_format(options: Any, engine: str | None) -> None:
    """Replace a word such as 4bit by the format that users of the engine mean by it."""
    # called by __post_init__ of a frozen record
    object.__setattr__(options, "dtype", in_engine(options.dtype, engine))


def engine_of(name: EngineName, memory_bytes: int | None = None) -> InferenceEngine:
    """The engine of a name, as it runs on a device with so much memory."""
    facts = load_engine(name)
    return InferenceEngine(
        name,
        facts["title"],
        facts["serves"],
        tuple(facts["formats"]),
        tuple(facts["cache_dtypes"]),
        facts["cache_block"],
        facts["window_extra"],
        _by_memory(facts.get("chunk", {}), memory_bytes),
        facts["utilization"],
        tuple(facts.get("in_ram", ())),
        splits_layers=facts.get("split") == "layers",
        native_only=tuple(facts.get("native_only", ())),
        recurrent_dtype=facts.get("recurrent_dtype", ""),
        convolution_dtype=facts.get("convolution_dtype", ""),
        max_sequences=_by_memory(facts.get("max_sequences", {}), memory_bytes),
        mixes_prompts=facts.get("mixes_prompts", False),
        mxfp4_experts=tuple(facts.get("mxfp4_experts", ())),
    )


def _by_memory(figures: Mapping[str, int], memory_bytes: int | None) -> int | None:
    """The engine's figure for a device's memory; the last one where the memory is unknown."""
    figure_of_memory = None
    for least, figure in figures.items():
        if memory_bytes is None or memory_bytes >= parse_bytes(least):
            figure_of_memory = figure
    return figure_of_memory


def run_by_engine(
    settings: MemorySettings,
    model: Model,
    name: EngineName | None,
    kv_dtype: str | None,
    device: DeviceMemory | None = None,
) -> MemorySettings:
    """The settings with the engine, its chunk and its type of cache.

    Options that speak of eager torch mean that, unless an engine is named. Raises ArchError for an engine
    that cannot do what the settings ask.
    """
    values = {option: getattr(settings, option) for option in OF_TORCH}
    changed = [f"--{name} {value}" for name, value in values.items() if value != getattr(DEFAULTS, name)]
    if changed and name is None:
        name = "none"
    engine = chosen_engine(name, model, settings.phase, device, kv_dtype)
    if changed and engine.serves:
        what = f"{changed[0]} is of eager torch, and --engine is {name}"
        raise ArchError(what, f"--engine none, or leave {changed[0].split()[0]} out")
    if kv_dtype == settings.dtype and not engine.serves and settings.phase in CACHING:
        # the dtype that a cache has without an engine anyway
        kv_dtype = None
    if kv_dtype is not None:
        if not engine.serves:
            what = f"--kv-dtype is of an engine's cache, and {_without(engine, settings.phase)}"
            raise ArchError(what, "--phase serve and --engine vllm, or leave --kv-dtype out")
        from archcli.measure.kvcache.cache_size import check_cache  # of a cache in another type alone

        check_cache(model, kv_dtype)
        engine.check_cache(kv_dtype)
    chunk = settings.chunk
    if chunk is None and settings.phase in {"prefill", "serve"}:
        chunk = engine.chunk
    # eager torch keeps the cache in the dtype in which it computes
    cache_dtype = kv_dtype or (settings.cache_dtype if engine.serves else None)
    split = tuple(card.memory_bytes for card in device.unlike) if device is not None else ()
    return replace(settings, engine=engine, chunk=chunk, cache_dtype=cache_dtype, split=split)


def _without(engine: InferenceEngine, phase: str) -> str:
    """The reason why the cache has no dtype of its own."""
    if engine.name == "none":
        return f"the phase is {phase} without an engine"
    return f"{engine.title} grows one of the type that it computes in"


def share_of(
    device: DeviceMemory | None, engine: InferenceEngine | None, utilization: float | None
) -> DeviceMemory | None:
    """The memory that an engine takes of a device. Raises ArchError for a share of none."""
    if device is None:
        if utilization is not None:
            raise ArchError("--utilization is a share of a device", "name one: --device h100-sxm")
        return None
    return device.taken_by(engine or NO_ENGINE, utilization)


def chosen_engine(
    name: EngineName | None,
    model: Model,
    phase: str,
    device: DeviceMemory | None,
    kv_dtype: str | None = None,
) -> InferenceEngine:
    """The engine of a name; or the usual one of a device, if it reads the format and keeps such a cache.

    Without a cache none runs. Raises ArchError for an engine in such a phase, or that does not read the
    format.
    """
    if phase not in CACHING or not model.caches:
        # a model without a cache is refused by the phase itself
        if phase not in CACHING and name not in {None, "none"}:
            what = f"--engine applies to inference with a cache only, and the phase is {phase}"
            raise ArchError(what, "leave --engine out")
        return NO_ENGINE
    usual: EngineName = "vllm" if device is None else device.usual_engine
    memory_bytes = None if device is None else device.memory_bytes
    if name is None:
        usual = next(_readers(model.stored_as, usual, kv_dtype), usual)
    engine = engine_of(name or usual, memory_bytes)
    if device is None or device.stated:
        # which kernels run, and so what they pad, is a matter of the device
        engine = engine.without_padding()
    if name is None:
        return engine
    if name != "none" and model.stored_as and model.stored_as not in engine.formats:
        others = list(_readers(model.stored_as, usual))
        if others:  # of a format that no engine is known to read nothing can be said
            what = f"{engine.title} does not read weights in {model.stored_as}"
            raise ArchError(what, f"--engine {either(others)}")
    if model.stored_as in engine.native_only:
        _check_multiplied(engine, model, device)
    return engine


def _check_multiplied(engine: InferenceEngine, model: Model, device: DeviceMemory | None) -> None:
    """Raise ArchError on a device that does not multiply a format which the engine does not unpack."""
    from archcli.wings.serving.predict.constants import PEAKS  # of such formats alone

    product = None if model.quantization is None else model.quantization.product
    if product is None or device is None or device.figures is None:
        return
    if not device.figures.intersection(PEAKS[product.needed]):
        what = f"{engine.title} does not unpack {model.stored_as}, and {device.name} states no peak of"
        others = [name for name in _readers(model.stored_as, "vllm") if name != engine.name]
        raise ArchError(f"{what} {product.needed}", f"--engine {either(others)}")


def _readers(stored_as: str, usual: EngineName, kv_dtype: str | None = None) -> Iterator[EngineName]:
    """The engines that read weights in a named format and keep a type of cache, the usual one first."""
    for name in dict.fromkeys((usual, "vllm", "llamacpp", *get_args(EngineName)[1:])):
        facts = load_engine(name)
        if (not stored_as or stored_as in facts["formats"]) and kv_dtype in {None, *facts["cache_dtypes"]}:
            yield name
