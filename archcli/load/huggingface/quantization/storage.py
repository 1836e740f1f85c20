"""The `quantization` of a model: its quantization_config applied matrix by matrix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archcli.arith import Shape
from archcli.errors import ArchError, shorten
from archcli.graph import Row
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.quantization.methods import METHODS, method_of
from archcli.load.huggingface.quantization.rules import Decision, rules
from archcli.load.huggingface.quantization.scheme import AS_IT_IS, EXPERT, Scheme
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.huggingface.weights.modules import (
    MOST_NUMBERED,
    is_idle_linear,
    is_module,
    listed,
    module_names,
    stored_together,
    unmatched,
)
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline
from archcli.modules.spec.unread import UNREAD
from archcli.modules.stored.formats import Packing
from archcli.modules.stored.quantization import is_expert, is_stacked, matrix_shape, quantizable
from archcli.ops import Linear

SIXTEEN = Packing(16, scale_bits=0)
"""Plain numbers of fp16 or bf16, of which a form says nothing."""
# rules of one file: each is matched with every matrix, and a model of experts has thousands
MOST_RULES = 2000
NOT_KNOWN = "parameters are counted, and bytes are not known: --dtype states a form"
NAMING = (
    "quant_algo",
    "moe_quant_algo",
    "expert_dtype",
    "data_type",
    "weights",
    "checkpoint_format",
    "packing_format",
    "version",
    "format",
    "mode",
    "quant_type",
    "bits",
)
"""Keys that tell the forms of a method apart."""
SINGLE = re.compile(r"experts?\\?[._]\(?\d")
"""Entries that name an expert by its number."""
# characters of a form's name in reports
LONGEST_FORM = 120
OF_WIDTH = re.compile(r"bits|dtype|algo|width|precision|format|group_size")
"""Keys that may say how weights are stored."""
OF_COMPUTING = re.compile(r"^(act|kv|bnb_4bit)_|compute|input|output|cache")
"""Keys that say how a model computes, or keeps its cache."""


OF_CACHES = ("fp8", "int8", "nvfp4")
"""Types of a cache that a file has scales for."""


class Storage(NamedTuple):
    """A model's `quantization` as a YAML would state it, None where nothing is packed; and notes."""

    quantization: dict[str, Any] | None
    notes: tuple[str, ...]


def storage(config: Config, model: Model, weights: WeightMap | None) -> Storage:
    """How a quantization_config stores the matrices of a model; it names modules as `weights` does."""
    method = method_of(config.data)
    if method not in METHODS:
        name = short_repr(method) if method else "that is missing"
        return _unknown(config, f"a quant_method {name} is not known")
    try:
        scheme = METHODS[method](config)
    except ArchError as error:
        return _unknown(config, error.problems[0].what)
    if scheme is None:
        return _unknown(config, f"this form of {method} is not known")
    quantization = rules(_decisions(scheme, model, weights))
    if quantization is not None and len(quantization.get("rules", ())) > MOST_RULES:
        return _unknown(config, f"it gives more than {MOST_RULES:,} rules")
    if quantization is not None:
        quantization |= {"native": scheme.native} if scheme.native else {}
        quantization |= {"label": shorten(scheme.about, LONGEST_FORM), **_cache(config.data)}
    return Storage(quantization, (*_notes(scheme, model, weights), *_unread(config)))


def _cache(data: Mapping[str, Any]) -> dict[str, str]:
    """The dtype of the cache by a file of modelopt or compressed-tensors, as a field; empty without one."""
    inner = data.get("quantization")
    levels = [data, inner] if isinstance(inner, dict) else [data]
    schemes = [scheme for level in levels if isinstance(scheme := level.get("kv_cache_scheme"), dict)]
    names = [str(level.get("kv_cache_quant_algo")).lower() for level in levels]
    names += [
        f"{'fp' if scheme.get('type') == 'float' else 'int'}{scheme.get('num_bits')}" for scheme in schemes
    ]
    return {"cache": dtype} if (dtype := next((name for name in names if name in OF_CACHES), "")) else {}


def _unread(config: Config) -> Iterator[str]:
    """Notes on keys that state a width or a type of weights, and were not read."""
    for key in config.unread_keys():
        if OF_WIDTH.search(key) and not OF_COMPUTING.search(key):
            yield f"quantization_config: key {short_repr(key)} was not understood and may change the bytes"


def _unknown(config: Config, reason: str) -> Storage:
    """The storage of a form of unknown bytes, named after the file: `modelopt, W4A8_AWQ`."""
    naming = ((name, config.data[name]) for name in NAMING if name in config.data)
    settings = [f"{name} {value}" for name, value in naming if isinstance(value, str | int)]
    form = ", ".join([method_of(config.data) or "a quant_method without a name", *settings])
    quantization = {"bits": "dtype", "unknown": shorten(form, LONGEST_FORM)}
    return Storage(quantization, (f"quantization_config: {reason}: {NOT_KNOWN}",))


def _notes(scheme: Scheme, model: Model, weights: WeightMap | None) -> Iterator[str]:
    yield f"quantization_config: {scheme.about}; other weights take the bytes of --dtype"
    if weights is None and (scheme.kept or scheme.overrides):
        yield "quantization_config: its module names were not compared, those of this family are not known"
    for entry in scheme.unread[:3]:
        yield f"quantization_config: the pattern {short_repr(entry)} was not understood"
    single = [*_of_single_experts(scheme, model)]
    if single:
        yield f"quantization_config: experts count alike, and {short_repr(single[0])} names some alone"
    missed = [] if weights is None else unmatched(scheme.patterns, model, weights)
    # of the experts of a layer the first alone has names here
    missed = [entry for entry in missed if entry not in {*single}]
    if missed:
        yield f"quantization_config: no module of the model is called {listed(missed)}"


def _of_single_experts(scheme: Scheme, model: Model) -> Iterator[str]:
    """The entries that name only some experts of a layer: `experts.3.up_proj` without the others."""
    numbers = [row.experts.n_experts for row in outline(model) if row.experts]
    for patterns in scheme.patterns if numbers else ():
        named = [entry for entry in patterns if SINGLE.search(entry) and entry not in patterns.of_all_experts]
        alike = Counter(EXPERT.sub(r"\1", entry) for entry in named)
        yield from (entry for entry in named if alike[EXPERT.sub(r"\1", entry)] < min(numbers))


def _decisions(scheme: Scheme, model: Model, weights: WeightMap | None) -> Iterator[Decision]:
    """The format of every matrix of every layer, layers together where nothing tells them apart."""
    layers = LayerIndex(model)
    rows = [row for row in outline(model) if _is_decided(row, weights)]
    shapes = {f"{row.path}.weight": matrix_shape(row) for row in rows}
    for row in rows:
        # a weight that is borrowed is stored by its owner
        if row.stored == 0:
            continue
        span = layers.stored_span(row)
        in_layer = any(row.path.startswith(prefix) for prefix in layers.prefixes)
        apart = scheme.tells_layers_apart and in_layer and len(span) <= MOST_NUMBERED
        path = re.sub(r"(^|\.)layers\.\d+\.", r"\1layers.*.", row.path) if in_layer else row.path
        experts = is_expert(row)
        tensor = stored_together(row.path, weights, experts=experts)
        is_layer = isinstance(row.op, Linear) and (experts or is_module(row.path, weights))
        is_layer = is_layer or is_stacked(row) or row.group == UNREAD
        ours = f"{row.path}.weight"
        together = [shapes[name] for name in tensor if name in shapes] or [shapes[ours]]
        of_all = sum(shape[0] for shape in together)
        for numbers, place in zip(
            [range(n, n + 1) for n in span] if apart else [span], layers.stored_paths(row), strict=False
        ):
            packing = AS_IT_IS
            if is_layer or row.group in scheme.tables:
                names = _names(place, weights, tensor, experts=experts)
                packing = scheme.packing_of(_group(row), names, of_all, in_layer=in_layer)
            packing = _in_tensor(packing, together, is_first=tensor[0] == ours)
            yield Decision(row.group, path, numbers if in_layer else None, packing)


def _is_decided(row: Row, weights: WeightMap | None) -> bool:
    """Whether a row may be packed; of weights that no pass reads, only linear layers may."""
    return quantizable(row) and (row.group != UNREAD or is_idle_linear(row.path, weights))


def _group(row: Row) -> str:
    """The group by which a scheme decides on a row; unread experts and routers count as read ones."""
    if row.group != UNREAD:
        return row.group
    return "experts" if is_expert(row) else "router" if row.path.endswith("router") else UNREAD


def _names(place: str, weights: WeightMap | None, tensor: tuple[str, ...], *, experts: bool) -> list[str]:
    """The names of a matrix's module, and of those whose matrices lie in the same tensor."""
    if len(tensor) == 1:
        return module_names(place, weights, experts=experts)
    parts = (name.removesuffix(".weight") for name in stored_together(place, weights, experts=experts))
    return [name for part in parts for name in module_names(part, weights, experts=experts)]


def of_file(model: Model, packings: Mapping[str, Packing], rest: str) -> dict[str, Any] | None:
    """The `quantization` of a file that has matrices in these formats by name, and all else in `rest`.

    None where all have 16 bits, where the file lacks a matrix, and for far too many rules.
    """
    layers, decisions = LayerIndex(model), []
    for row in outline(model):
        if not quantizable(row) or row.group == UNREAD or row.stored == 0:
            continue
        span = layers.stored_span(row)
        if len(span) > MOST_NUMBERED:  # a stranger's config may state any number of layers
            return None
        in_layer = any(row.path.startswith(prefix) for prefix in layers.prefixes)
        path = re.sub(r"(^|\.)layers\.\d+\.", r"\1layers.*.", row.path) if in_layer else row.path
        for number, place in zip(span, layers.stored_paths(row), strict=True):
            packing = packings.get(f"{place}.weight")
            if packing is None:
                return None
            decided = range(number, number + 1) if in_layer else None
            decisions.append(Decision(row.group, path, decided, packing))
    if all(decision.packing == SIXTEEN for decision in decisions):
        return None
    quantization = rules(decisions)
    if quantization is None or len(quantization.get("rules", ())) > MOST_RULES:
        return None
    return {**quantization, "rest": rest}


def _in_tensor(packing: Packing, together: list[Shape], *, is_first: bool) -> Packing:
    """The format of one of the matrices of a tensor, whose common numbers are counted with the first.

    Groups that begin in one matrix and end in the next are common as well: two of 200 values are 7 blocks
    of 64, not 8.
    """
    first, later = packing, _without_shared(packing)
    whole = (sum(shape[0] for shape in together), *together[0][1:])
    of_whole = packing.bits_of(whole, 0).scales
    of_parts = [(later if i else first).bits_of(shape, 0).scales for i, shape in enumerate(together)]
    if packing != AS_IT_IS and sum(of_parts) != of_whole:
        later = Packing(packing.bits, "tensor", scale_bits=0)
        first = later._replace(matrix_bits=of_whole)
    return first if is_first else later


def _without_shared(packing: Packing) -> Packing:
    """The format of a later matrix of a tensor, without what one number of it stands for."""
    if packing == AS_IT_IS:
        return packing
    scale = 0 if packing.group_size == "tensor" else packing.scale_bits
    second = 0 if packing.second_group_size == "tensor" else packing.second_scale_bits
    return packing._replace(scale_bits=scale, second_scale_bits=second, input_bits=0, matrix_bits=0)
