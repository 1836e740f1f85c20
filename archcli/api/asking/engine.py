"""The engine that --engine names, or the one that people use for a format on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from archcli.errors import ArchError, either
from archcli.load.devices.engines import load_engine
from archcli.measure.memory.answers.question import DeviceMemory
from archcli.measure.memory.engine import CACHING, NO_ENGINE, EngineName, InferenceEngine
from archcli.measure.memory.settings import MemorySettings
from archcli.modules import Model
from archcli.modules.stored.formats import cache_bytes

OF_TORCH = (("attention", "sdpa"), ("attention", "eager"), ("backend", "cpu"), ("backend", "mps"))
"""Options that speak of eager torch alone, with the values that are not their defaults."""


def engine_of(name: EngineName) -> InferenceEngine:
    """The engine of a name."""
    facts = load_engine(name)
    return InferenceEngine(
        name,
        facts["title"],
        facts["serves"],
        tuple(facts["formats"]),
        tuple(facts["cache_dtypes"]),
        facts["cache_block"],
        facts["window_extra"],
        tuple((int(gib.removesuffix("GiB")), n) for gib, n in facts.get("chunk", {}).items()),
        facts["utilization"],
        tuple(facts.get("in_ram", ())),
    )


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
    stated = [f"--{option} {value}" for option, value in OF_TORCH if getattr(settings, option) == value]
    if stated and name is None:
        name = "none"
    engine = chosen_engine(name, model, settings.phase, device.usual_engine if device else "vllm")
    if stated and engine.serves:
        what = f"{stated[0]} is of eager torch, and --engine is {name}"
        raise ArchError(what, f"--engine none, or leave {stated[0].split()[0]} out")
    if kv_dtype is not None:
        if not engine.serves:
            what = f"--kv-dtype is of an engine's cache, and the phase is {settings.phase} without an engine"
            raise ArchError(what, "--phase serve and --engine vllm, or leave --kv-dtype out")
        cache_bytes(1, kv_dtype)  # refuses what no engine keeps
        engine.check_cache(kv_dtype)
    chunk = settings.chunk
    if chunk is None and settings.phase in {"prefill", "serve"}:
        chunk = engine.chunk(device.memory_bytes if device else None)
    return replace(settings, engine=engine, chunk=chunk, cache_dtype=kv_dtype)


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
    name: EngineName | None, model: Model, phase: str, usual: EngineName = "vllm"
) -> InferenceEngine:
    """The engine of a name, or the usual one for the model's format: `usual` if that reads it.

    Without a cache none runs. Raises ArchError for an engine in such a phase, or that does not read the
    format.
    """
    if phase not in CACHING or not model.caches:
        if name not in {None, "none"}:
            what = f"--engine {name} runs inference with a cache, and the phase is {phase}"
            raise ArchError(what, "leave --engine out")
        return NO_ENGINE
    if name is None:
        return next((engine for engine in _by_use(usual) if reads(engine, model.stored_as)), engine_of(usual))
    engine = engine_of(name)
    if name != "none" and not reads(engine, model.stored_as):
        others = [other.name for other in _by_use(usual) if reads(other, model.stored_as)]
        if others:  # of a format that no engine is known to read nothing can be said
            what = f"{engine.title} does not read weights in {model.stored_as}"
            raise ArchError(what, f"--engine {either(others)}")
    return engine


def reads(engine: InferenceEngine, stored_as: str) -> bool:
    """Whether an engine reads weights in a named format; in no format every engine does."""
    return not stored_as or stored_as in engine.formats


def _by_use(usual: EngineName) -> list[InferenceEngine]:
    """The engines that read files of weights, the usual one first."""
    return [engine_of(name) for name in dict.fromkeys((usual, "vllm", "llamacpp", *get_args(EngineName)[1:]))]
