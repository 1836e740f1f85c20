"""KV cache size: at a context length, as engines store it, and with other kinds of attention.

Every figure is read off the rows of a prefill; there is no second formula.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import State, StateContent, StateKind
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.engine import ALONE, ANY_ENGINE, InferenceEngine, SharedModel
from archcli.measure.kvcache.held import fits, held_bytes, longest, pool_of
from archcli.measure.kvcache.tables import (
    ATTENTION_ONLY,
    REBUILT,
    headline_of,
    notes_of,
    state_notes,
    tables_of,
)
from archcli.measure.kvcache.variants import (
    attention_only,
    caching_alike,
    expanded,
    to_gqa,
    to_mha,
    to_mla,
    to_mqa,
)
from archcli.measure.notes import (
    cached_form_notes,
    context_notes,
    media_records,
    plan_convention,
    prompt_tokens,
    source_notes,
)
from archcli.measure.passes import GROWING
from archcli.measure.report import Report
from archcli.modules import Mixer, MixerFacts, Model, Norm, find, substitute
from archcli.modules.attention.mixer import mixers
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.base import Spec, ends_in
from archcli.modules.spec.request import Media, Request
from archcli.modules.spec.trace import MTP
from archcli.modules.stored.formats import DTYPE_FORMATS, format_notes
from archcli.plugins import part

CONVENTION = (
    "Elements the architecture needs: kv heads x min(tokens, window) x (key + value width) per layer; "
    "for MLA the latent and its rotary key."
)
CONSTANT = "Constant: the states of recurrent layers, and all K inputs of a convolution of K taps."
OF_BLOCKS = (
    "Blocks of tokens: one key for each closed block, which attention reads as the value too; of the open "
    "one the keys of its tokens, and their gates if it has some."
)
# tokens, where a model states no max_seq_len
DEFAULT_CONTEXT = 2048
KEYS = (
    *("first", "layers", "attention", "window", "tokens", "elements_per_token", "constant_elements"),
    *("cached", "elements", "bytes", "contents"),
)

USUAL = {"batch_size": 1, "dtype": "bf16"}

Record = dict[str, Any]


def count_kv_cache(  # noqa: PLR0913
    model: Model,
    context: int | None = None,
    batch_size: int = 1,
    dtype: str = "bf16",
    memory_bytes: int | None = None,
    source_len: int | None = None,
    state_dtype: str | None = None,
    *,
    plan: SharedModel = ALONE,
    architecture: str = "",
    engine: InferenceEngine = ANY_ENGINE,
    media: Media = (),
) -> Report:
    """The report of `archcli kvcache`, of one of the ranks of a plan that share each matrix.

    `context` None is that of `usual_context`, with `media` the text beside them, by default 2048 tokens;
    `state_dtype` None is `dtype`. `architecture` is that of the GPU with `memory_bytes`, such as sm_90;
    `engine` says what is held and fits, for which the stages of a plan have the memory of all of them.
    """
    dtypes = CacheDtypes(dtype, state_dtype)
    context = prompt_tokens(model, context, media) if media else context or usual_context(model)
    whole = model = model.with_media(media)
    positions = model.source_length((source_len or context) + model.source_tokens(media))
    size = CacheSize(model := plan.share(model), source_len, model.source_tokens(media))
    totals: Record = {
        **_of_source(size, context, batch_size, dtypes),
        **_held(size, context, batch_size, dtypes),
        **_growing_and_constant(size, context, batch_size, dtypes),
        **_alternatives(whole, plan, context, batch_size, dtypes),
        **_of_media(whole, media, context, positions),
        "held": {"engine": engine.name, "bytes": held_bytes(size, dtypes, engine, context, batch_size)},
        "by_path": list(_by_path(model, size, context, batch_size, dtypes)),
    }
    rows = _by_layer(model, size, context, batch_size, dtypes)
    if memory_bytes is not None:
        served = part("serving.served_model")(whole, size, dtypes, architecture, plan, engine)
        totals["fits"] = _fits(served, model, plan.pp * memory_bytes, context, batch_size)
    sizes: Record = {"context": context, "batch_size": batch_size, "dtype": dtype, "state_dtype": state_dtype}
    sizes |= {"memory_bytes": memory_bytes, "source_len": positions, **_shared(plan), "kv_dtype": dtype}
    shown = {"plan": plan.inputs(), "engine": engine.name if memory_bytes is None else ""}
    return Report(
        command="kvcache",
        model={"name": model.name, "source": model.source},
        inputs={**sizes, "engine": engine.name},
        convention=_convention(model, totals),
        totals=totals,
        rows=rows,
        tables=tuple(tables_of(totals, rows, context, batch_size, dtypes)),
        notes=tuple(_notes(model, context, source_len, dtypes, totals)),
        usual={**USUAL, **shown, "kv_dtype": dtype},
        keys=KEYS,
        headline=headline_of(totals, context, batch_size, dtypes),
    )


def _of_media(model: Model, media: Media, context: int, positions: Number | None) -> Record:
    """What the media of a prompt become, by JSON's keys; nothing of text alone."""
    prompt = positions if model.source_tokens(media) else context
    return {"media": media_records(model, media), "prompt_tokens": prompt} if media else {}


def usual_context(model: Model) -> int:
    """max_seq_len, else 2048; for an encoder of images or sounds, the tokens that it reads."""
    if model.media and not model.towers:
        tokens: int = model.fitted(Request()).seq_len
        return tokens
    return model.max_seq_len or DEFAULT_CONTEXT


def _fits(served: Any, model: Model, memory_bytes: int, context: int, batch_size: int) -> Record:
    """What fits beside the weights, also during a prefill if the cache grows. `model`: a rank's share."""
    size, dtypes = served.size, served.dtypes
    pool = pool_of(size, dtypes, served.engine)
    fit = fits(model, size, memory_bytes, context, batch_size, dtypes, pool)
    if served.model.caches and fit["weights_bytes"] is not None:
        fit["served"] = served.fits(memory_bytes - fit["weights_bytes"], context, batch_size)
    return fit


def _shared(plan: SharedModel) -> Record:
    """A plan of several devices by JSON's keys."""
    degrees = {"tp": plan.tp, "pp": plan.pp}
    larger: Record = {name: degree for name, degree in degrees.items() if degree > 1}
    return {**larger, "plan": plan.inputs()} if plan.devices > 1 else larger


def _notes(
    model: Model, context: int, source_len: int | None, dtypes: CacheDtypes, totals: Record
) -> Iterator[str]:
    """Notes on the request, on weights of a byte beside the cache, and on the figures."""
    if "fits" in totals and dtypes.dtype in DTYPE_FORMATS and model.as_published().quantization is None:
        yield from (f"weights in {note}" for note in format_notes(dtypes.dtype))
    if "fits" in totals and totals["fits"]["weights_bytes"] is None:
        yield "what fits beside the weights is not known, as their bytes are not."
    yield from context_notes(model, context)
    yield from source_notes(model, source_len)
    yield from cached_form_notes(model)
    yield from notes_of(totals)
    yield from state_notes(totals, dtypes)


def _convention(model: Model, totals: Record) -> str:
    constant = f" {CONSTANT}" if totals["state_elements"] else ""
    constant += f" {OF_BLOCKS}" if StateContent.OPEN_BLOCK in totals["by_content"] else ""
    return f"{CONVENTION}{constant}{plan_convention(model)}"


def _alternatives(
    model: Model, plan: SharedModel, context: int, batch_size: int, dtypes: CacheDtypes
) -> Record:
    """The cache as some engines store it, and with other kinds of attention, as far as ranks can share it."""
    model = caching_alike(model)
    # causal layers of an encoder cache nothing, as CLIP's of texts
    converted = kinds_of(model) if model.caches else ()
    variants = {"held_by_engines": _engines(model), "as_kind": converted}
    records: dict[str, Record] = {key: {} for key in variants}
    for key, models in variants.items():
        for name, changed in models:
            # shared only after the conversion: in a rank's share heads and widths are a rank's
            with suppress(ArchError):  # heads of another kind may not divide
                size = CacheSize(plan.share(changed))
                records[key][name] = _held(size, context, batch_size, dtypes)
    return records


def _growing_and_constant(size: CacheSize, context: int, batch_size: int, dtypes: CacheDtypes) -> Record:
    """The growing and the constant part of the cache, by content, and where the former is the larger."""

    def growing(tokens: int) -> int:
        return dtypes.bytes_of(size.contents(tokens, batch_size, kinds=GROWING))

    states = size.contents(context, batch_size, kinds=(StateKind.FIXED,))
    constant = dtypes.bytes_of(states)
    # the last context whose cache is no larger than the constant part; one token more exceeds it
    most = longest(growing, constant) if constant else None
    return {
        "kv_elements": size.elements(context, batch_size, kinds=GROWING),
        "kv_bytes": growing(context),
        "state_elements": states.total(),
        "state_bytes": constant,
        "by_content": {content.value: n for content, n in size.contents(context, batch_size).items()},
        "overtakes_at": None if most is None else most + 1,
    }


def _of_source(size: CacheSize, context: int, batch_size: int, dtypes: CacheDtypes) -> Record:
    """What a decoder keeps of its encoder's positions, and its bytes with those of the cache."""
    source = size.contents(context, batch_size, kinds=(StateKind.SOURCE,))
    decoder_bytes = dtypes.bytes_of(size.contents(context, batch_size))
    n_bytes = dtypes.bytes_of(source)
    return {"cross_elements": source.total(), "cross_bytes": n_bytes, "all_bytes": decoder_bytes + n_bytes}


def _held(size: CacheSize, context: int, batch_size: int, dtypes: CacheDtypes) -> Record:
    """Size of the cache at `context`, and its growth per token before any window is full."""
    contents, growth = size.contents(context, batch_size), size.growth
    return {
        "elements": contents.total(),
        "bytes": dtypes.bytes_of(contents),
        "elements_per_token": growth.total(),
        "bytes_per_token": dtypes.bytes_of(growth),
    }


CONVERSIONS: dict[str, Callable[[MixerFacts, Norm], Mixer]] = {
    "mha": lambda mixer, _: to_mha(mixer),
    "gqa": lambda mixer, _: to_gqa(mixer),
    "mqa": lambda mixer, _: to_mqa(mixer),
    "mla": to_mla,
}
"""Kinds of attention, and how a layer's becomes one of them, given the model's norm."""


def cached_attention(model: Model) -> dict[str, MixerFacts]:
    """By full path, mixers that cache an entry per token: causal softmax attention, run in inference."""
    # layers of multi-token prediction run in training alone, and cache nothing
    facts = {
        path: mixer.facts(model.d_model) for path, mixer in mixers(model) if not path.startswith(f"{MTP}.")
    }
    return {path: mixer for path, mixer in facts.items() if mixer.causal and mixer.has_scores}


def _engines(model: Model) -> Iterator[tuple[str, Model]]:
    """(layout, model) of cache layouts in engines that store more than is needed, or a token less."""
    cached = cached_attention(model)
    bounds = {f"{path}.window": mixer.window for path, mixer in cached.items() if mixer.window is not None}
    bounds |= {f"{path}.chunk": mixer.chunk for path, mixer in cached.items() if mixer.chunk is not None}
    if bounds:
        yield "every layer at full length", substitute(model, dict.fromkeys(bounds))
    # a window of one token would leave none
    if bounds and min(bounds.values()) > 1:
        # the new token arrives with the pass that reads it, so transformers keeps those before it
        less = {path: bound - 1 for path, bound in bounds.items()}
        yield "window - 1 tokens, as transformers", substitute(model, less)
    shared = [f"{path}.kv_from" for path, mixer in cached.items() if mixer.kv_from is not None]
    if shared:
        yield "keys and values of its own in every layer", substitute(model, dict.fromkeys(shared))
    latent = {path: expanded(mixer) for path, mixer in cached.items() if mixer.is_latent}
    if latent:
        yield REBUILT, substitute(model, latent)


def kinds_of(model: Model) -> Iterator[tuple[str, Model]]:
    """(kind, model) with all attention converted to each kind; attention without heads is unchanged."""
    heads = {path: mixer for path, mixer in cached_attention(model).items() if mixer.content_dim is not None}
    for name, convert in CONVERSIONS.items() if heads else ():
        # a mixer of that kind already keeps its own number of KV heads
        changed = {path: convert(mixer, model.norm) for path, mixer in heads.items() if mixer.kind != name}
        yield name, substitute(model, changed)
    without_recurrence = attention_only(model)
    if without_recurrence is not None:
        yield ATTENTION_ONLY, without_recurrence


def _by_layer(
    model: Model, size: CacheSize, context: int, batch_size: int, dtypes: CacheDtypes
) -> list[Record]:
    """A record per set of layers with equal caches: mixer, what is cached, cache size, number of layers."""
    sorts: dict[Any, Record] = {}
    for layer in LayerIndex(model):
        states = size.of_layer(layer.path, context, batch_size)
        if not states:
            continue
        mixer = layer.facts()
        bound = mixer.window if mixer.chunk is None else mixer.chunk
        sort = {"attention": mixer.kind, "window": bound, **_kept(states, batch_size)}
        contents: Counter[StateContent] = Counter()
        first = {"first": layer.path, "layers": 0, **sort, "contents": contents}
        entry = sorts.setdefault(tuple(sort.values()), first)
        entry["layers"] += layer.times
        for state in states:
            entry["contents"][state.holds] += layer.times * state.elements
    return [_record(dtypes, **entry) for entry in sorts.values()]


def _by_path(
    model: Model, size: CacheSize, context: int, batch_size: int, dtypes: CacheDtypes
) -> Iterator[Record]:
    """A record per operation that leaves something in the cache: in how many layers, and the bytes there."""
    for layer in LayerIndex(model):
        for path, states in size.by_path(layer.path, context, batch_size).items():
            contents: Counter[StateContent] = Counter()
            for state in states:
                contents[state.holds] += layer.times * state.elements
            yield {"path": path, "layers": layer.times, "bytes": dtypes.bytes_of(contents)}


def _record(dtypes: CacheDtypes, contents: Counter[StateContent], **entry: Any) -> Record:
    """The record of layers whose states hold `contents`, all layers together."""
    elements = {content.value: n for content, n in contents.items()}
    return {**entry, "elements": contents.total(), "bytes": dtypes.bytes_of(contents), "contents": elements}


def _kept(states: list[State], batch_size: int) -> Record:
    """Tokens that a layer caches, elements per token and constant elements of a sequence, what they hold."""
    entries = [state for state in states if state.tokens is not None]
    constant = sum(state.elements // batch_size for state in states if state.tokens is None)
    return {
        "tokens": max((state.tokens for state in entries), default=None),
        "elements_per_token": sum(state.per_token(batch_size) for state in entries),
        "constant_elements": constant,
        "cached": " + ".join(dict.fromkeys(state.holds.value for state in states)),
    }


OF_ROTARY_DIMS = {"qk_rope_head_dim"}


def needed_sizes(model: Model, name: str, kind: str) -> dict[str, int]:
    """The sizes, by full path, that a change of every `kind` of this name to another attention must state.

    Empty where the kind has none, is no conversion of `archcli kvcache`, or some layer of the name is no
    attention with heads.
    """
    changed = {path: spec for path, spec in find(model, Spec) if ends_in(f"{path}.kind", name.split("."))}
    heads = {path: facts for path, facts in cached_attention(model).items() if facts.content_dim is not None}
    if kind not in CONVERSIONS or not all(path in heads for path in changed):
        return {}
    needed: dict[str, int] = {}
    for path, spec in changed.items():
        variant = CONVERSIONS[kind](heads[path], model.norm)
        for field, declared in variant.fields.items():
            # rotary dims may be left out, and are none then: positions that turn them need a width
            is_size = declared.required or field in OF_ROTARY_DIMS
            if is_size and not declared.inherits and spec.value_of(field) is None:
                needed[f"{path}.{field}"] = getattr(variant, field)
    return needed
