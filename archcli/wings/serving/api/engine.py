"""The engine that --engine names, or the one that people use for a format on a device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, get_args

from archcli.errors import ArchError, either
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE, InferenceEngine
from archcli.modules import Model
from archcli.modules.attention.mixer import mixers
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.arguments import EngineName
from archcli.modules.spec.trace import outline
from archcli.modules.stored.formats import GGUF, PAIR, is_format, stored_format
from archcli.modules.stored.mixes import TABLE
from archcli.modules.stored.quantization import Quantization
from archcli.modules.stored.words import in_engine
from archcli.units import parse_bytes
from archcli.wings.serving.api.programs.adapters import adapter_notes
from archcli.wings.serving.devices.engines import load_engine, runs_on
from archcli.wings.serving.memory.answers.changes import FORMATS, OF_MACS, RARE
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.reserved.reserves import by_memory, read_reserves
from archcli.wings.serving.memory.settings import MemorySettings

OF_TORCH = ("attention", "backend")
"""Options of eager torch, which imply --engine none."""
OF_CHUNK = "chunk"
"""The tokens that an engine holds beyond a window, where they are those of a chunk."""
DEFAULTS = MemorySettings()


def take_format(options: Any, engine: str | None) -> None:
    """Replace a word such as 4bit by the format that users of the engine mean by it."""
    # called by __post_init__ of a frozen record
    object.__setattr__(options, "dtype", in_engine(options.dtype, engine))


def engine_of(
    name: EngineName, memory_bytes: int | None = None, kinds: Collection[str] = ()
) -> InferenceEngine:
    """The engine of a name, as it runs a model of these kinds of mixers on a device with so much memory."""
    facts = load_engine(name)
    chunk, window = by_memory(facts.get("chunk", {}), memory_bytes), facts["window_extra"]
    return InferenceEngine(
        name,
        facts["title"],
        facts["serves"],
        formats_of(name),
        tuple(facts["cache_dtypes"]),
        facts["cache_block"],
        (chunk or 0) if window == OF_CHUNK else window,
        chunk,
        facts["utilization"],
        tuple(facts.get("in_ram", ())),
        splits_layers=facts.get("split") == "layers",
        native_only=tuple(facts.get("native_only", ())),
        recurrent_dtype=_state_dtype(facts, kinds),
        convolution_dtype=facts.get("convolution_dtype", ""),
        max_sequences=by_memory(facts.get("max_sequences", {}), memory_bytes),
        mixes_prompts=facts.get("mixes_prompts") is True,
        redundant_experts="redundant_experts" in facts,
        mxfp4_experts=tuple(facts.get("mxfp4_experts", ())),
        reserves=read_reserves(facts, memory_bytes),
        unusual=_in_full(facts.get("unusual", ())),
        margin=parse_bytes(facts.get("margin", "0B")),
        training_margin=facts.get("training_margin", 0.0),
        adapters_margin=facts.get("adapters_margin", 0.0),
    )


def formats_of(name: EngineName) -> tuple[str, ...]:
    """The formats of weights that an engine reads; `gguf` in its file stands for all of llama.cpp's."""
    return _in_full(load_engine(name)["formats"])


def _in_full(listed: Iterable[str]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(GGUF if it == "gguf" else (it,) for it in listed))


def as_converted(model: Model, engine: EngineName) -> Model:
    """The model as files of an engine hold it, where it is published in another form.

    gpt-oss is published with experts in mxfp4 and the rest in bf16: llama.cpp's files have the rest in q8_0.
    """
    form, converted = model.published_in, load_engine(engine).get("converted", {})
    # with a `rest`, the form is that of a GGUF file
    if form is None or form.rest is not None or model.quantization not in {None, form} or not converted:
        return model
    packings = form.packings(LayerIndex(model))
    of_experts = {packing for row in outline(model) if row.experts for packing, _ in packings(row)}
    for published, format_of_files in converted.items():
        *native, experts = published.split()
        if of_experts == {stored_format(experts).packing} and form.native == next(iter(native), None):
            files = Quantization(format=format_of_files)
            return model.replace(published_in=files, quantization=model.quantization and files)
    return model


def _state_dtype(facts: Mapping[str, Any], kinds: Collection[str]) -> str:
    """The type of recurrent states, which may go by the kind of layer; empty: as computed."""
    dtype = facts.get("recurrent_dtype", "")
    if isinstance(dtype, str):
        return dtype
    return next((of_kind for kind, of_kind in dtype.items() if kind in kinds), "")


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
        if not _keeps(load_engine(engine.name), kv_dtype):
            what = f"{engine.title} keeps keys and values in one type, not in {kv_dtype}"
            raise ArchError(what, f"--kv-dtype {kv_dtype.partition(PAIR)[0]}, or --engine llamacpp")
    chunk = settings.chunk
    if chunk is None and settings.phase in {"prefill", "serve"}:
        chunk = engine.chunk
    if chunk is not None and load_engine(engine.name)["window_extra"] == OF_CHUNK:
        engine = replace(engine, window_extra=int(chunk))
    # eager torch keeps the cache in the dtype in which it computes
    keeps = engine.serves and settings.cache_dtype in engine.cache_dtypes
    cache_dtype = kv_dtype or (settings.cache_dtype if keeps else None)
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
        return engine_of("none")
    usual: EngineName = "vllm" if device is None else device.usual_engine
    memory_bytes = None if device is None else device.memory_bytes
    platform = "" if device is None else device.platform
    if name is None:
        # those that run on the device, else any that reads the format
        readers = chain(_readers(model, usual, kv_dtype, platform), _readers(model, usual, kv_dtype))
        least: EngineName = usual if runs_on(usual, platform) else "llamacpp"
        usual = next((reader for reader in readers if load_engine(reader)["serves"]), least)
    kinds = {mixer.kind for _, mixer in mixers(model) if hasattr(mixer, "kind")}
    engine = engine_of(name or usual, memory_bytes, kinds)
    if device is None or device.stated:
        # which kernels run, and so what they pad, is a matter of the device
        engine = engine.without_padding()
    if name is None:
        return engine
    others = list(_readers(model, usual))
    # of a format that no engine is known to read nothing can be said, but of ExLlama's
    if name != "none" and name not in others and (others or stored_elsewhere(model.stored_as)):
        _refuse_format(engine, model, others)
    if model.stored_as in engine.native_only:
        _check_multiplied(engine, model, device)
    return engine


def stored_elsewhere(stored_as: str) -> str:
    """The program that alone reads a format: ExLlamaV2; empty for formats of engines."""
    program: str = TABLE["by_bits"].get(stored_as.partition("-")[0], {}).get("engine", "")
    return program


def _refuse_format(engine: InferenceEngine, model: Model, others: list[EngineName]) -> None:
    """Raise ArchError for a format that an engine does not read, with the nearest that it does."""
    form, program = model.quantization, stored_elsewhere(model.stored_as)
    named = model.stored_as or (form and (form.label or form.native)) or "its published form"
    bits = stored_format(model.stored_as or "fp8").bits
    known = [name for name in (*FORMATS, *OF_MACS) if name in engine.formats and name not in RARE]
    near = min(known, key=lambda name: abs(stored_format(name).bits - bits), default="")
    hints = (
        [f"--dtype {near}, the nearest that it reads ({stored_format(near).bits:.3g} bits)"] if near else []
    )
    hints += [f"--engine {either(others)}"] if others else []
    where = f", {program} does" if program else ""
    raise ArchError(f"{engine.title} does not read weights in {named}{where}", "; or ".join(hints))


def version_notes(
    engine: InferenceEngine, model: Model, kv_dtype: str | None, device: DeviceMemory | None
) -> Iterator[str]:
    """Notes on what is loaded, and where this version does not run on a device, in a format or a cache."""
    yield from adapter_notes(model, engine)
    try:
        check_runs(engine, model, kv_dtype, device)
    except ArchError as error:
        version = load_engine(engine.name)["version"]
        yield f"{error.problems[0].what} ({version}): another version, or a build of one's own, may."


def check_runs(
    engine: InferenceEngine, model: Model, kv_dtype: str | None, device: DeviceMemory | None
) -> None:
    """Raise ArchError for a device that an engine does not run on, or not in a format or with a cache."""
    platform, stored_as = "" if device is None else device.platform, model.stored_as
    wanted = {"": "", stored_as: f" with weights in {stored_as}"} if stored_as else {"": ""}
    if kv_dtype is not None:
        wanted[f"{kv_dtype} cache"] = f" with a cache in {kv_dtype}"
    for what, in_words in wanted.items():
        if device is not None and not runs_on(engine.name, platform, what):
            others = list(_readers(model, device.usual_engine, kv_dtype, platform))
            hint = f"--engine {either(others)}" if others else "another format, or another device"
            raise ArchError(f"{engine.title} does not run on {device.name}{in_words}", hint)


def that_runs(question: MemoryQuestion) -> MemoryQuestion:
    """A question that a hint asks. Raises ArchError where its engine does not run so on the device."""
    settings = question.settings
    check_runs(settings.engine or NO_ENGINE, question.model, settings.cache_dtype, question.device)
    return question


def _check_multiplied(engine: InferenceEngine, model: Model, device: DeviceMemory | None) -> None:
    """Raise ArchError on a device that does not multiply a format which the engine does not unpack."""
    from archcli.wings.serving.predict.constants import PEAKS  # of such formats alone

    product = None if model.quantization is None else model.quantization.product
    if product is None or device is None or device.figures is None:
        return
    if not device.figures.intersection(PEAKS[product.needed]):
        what = f"{engine.title} does not unpack {model.stored_as}, and {device.name} states no peak of"
        others = [name for name in _readers(model, "vllm") if name != engine.name]
        raise ArchError(f"{what} {product.needed}", f"--engine {either(others)}")


def _readers(
    model: Model, usual: EngineName, kv_dtype: str | None = None, platform: str = ""
) -> Iterator[EngineName]:
    """The engines that read a model's weights and keep a type of cache on a platform, the usual one first."""
    for name in dict.fromkeys((usual, "vllm", "llamacpp", *get_args(EngineName)[1:])):
        converted = as_converted(model, name)
        running = (runs_on(name, platform, what) for what in ("", converted.stored_as, f"{kv_dtype} cache"))
        if _reads(name, converted) and _keeps(load_engine(name), kv_dtype) and all(running):
            yield name


def _reads(name: EngineName, model: Model) -> bool:
    """Whether an engine reads a named format, or one that it multiplies as such numbers are."""
    if model.stored_as or model.quantization is None or not model.quantization.native:
        return not model.stored_as or model.stored_as in formats_of(name)
    known = [stored_format(it).native for it in formats_of(name) if is_format(it)]
    return model.quantization.native in known


def _keeps(facts: Mapping[str, Any], kv_dtype: str | None) -> bool:
    """Whether an engine keeps such a cache; keys and values of two types only where its file says so."""
    if kv_dtype is None:
        return True
    halves = set(kv_dtype.split(PAIR))
    return halves <= {*facts["cache_dtypes"]} and (PAIR not in kv_dtype or "cache_pairs" in facts)
