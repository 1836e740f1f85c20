"""Import of a Hugging Face config.json as the node tree of a YAML.

A file of `families/` has the Family of each of its model types. Only the one that is asked for is imported.
Nothing here runs code of a repository.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import ArchError, UndescribedError, closest
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import KeyPlaces, Mapped, tree_of, unplaced
from archcli.load.huggingface.family import CLASS_DEFAULTS, Family, value_at
from archcli.load.huggingface.keys import MLC_ENGINE, MLC_SIZES, NO_SHAPE
from archcli.load.huggingface.quantization.scheme import stated_quantization
from archcli.load.huggingface.registry import families, family_of
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.huggingface.wrappers.table import OWN_CODE, WRAPPERS
from archcli.load.huggingface.wrappers.text import (
    innermost,
    note_counted,
    note_towers,
    text_part,
    uncounted,
)
from archcli.load.spec.renamed import OUR_WORD
from archcli.load.yaml.nodes import Node
from archcli.plugins import optional, part

CLASS_ENDING = re.compile(
    r"(For[A-Z]\w*|WithLMHeadModel|LMHeadModel|MTModel|DoubleHeadsModel|EncoderModel|TextModel|Model)$"
)
GPT2_KEYS = {"n_embd", "n_layer", "n_head"}
MAMBA_SSM_KEYS = {"d_model", "n_layer", "ssm_cfg"}
LIST = "`archcli families` lists all"
BY_CLASS = f"{LIST}; params, flops, memory, show and summary count transformers' class, if any"
SYNONYMS = {
    "florence2_language": "bart",
    "gpt_neox_reward_model": "gpt_neox",
    "new": "gte",
    "phi4mm": "phi4_multimodal",
}
"""model_types as authors publish them, and as transformers or archcli calls the same model."""

OTHER_TOOLS = frozenset(("moe", "dense", "transformer", "decoder", "encoder", "gpt", "llm", "hybrid", "ssm"))
"""Words that other programs write at model_type."""

DRAFT = re.compile(r"Eagle|EAGLE|Medusa|Hydra|DraftModel$")
"""Classes of draft models, which state the model_type of the model that they draft for."""

HEADLESS = {"encoder", "media_encoder", "text_tower", "causal_text_tower"}
"""Kinds of models without a head that predicts the next token."""

MLC_PLAIN = ("q0f16", "q0f32", "q0bf16")
"""Names of forms of MLC that are plain numbers."""
INNER = "model_config"
"""The key of an mlc-chat-config.json that holds the model's own settings."""


class ImportedConfig(NamedTuple):
    """The node tree of an imported architecture, with the places of its values and notes.

    `is_sized`: the file states one of the sizes of its family at least; `is_quantized`: how its weights are
    stored, too.
    """

    tree: Node
    notes: tuple[str, ...]
    is_sized: bool
    is_quantized: bool = False


def import_config(
    data: Any, places: KeyPlaces | None = None, before: Mapped | None = None, over: Mapped | None = None
) -> ImportedConfig:
    """Import a config.json; keys `before` precede the imported ones, keys `over` replace them.

    Raises ArchError where it is of no known family, or says what cannot be expressed.
    """
    whole = _whole(data, places or unplaced("config.json"))
    whole = replace(whole, reader=_reader(whole))
    outer = stated_quantization(whole)
    part = text_part(whole)
    config, family = part.config, _family(part.config)
    if config.get("per_layer_config", default=None) and not family.reads_per_layer:
        hint = "layers that differ are written as groups in a YAML"
        raise config.error("per_layer_config is not supported", hint, config.place("per_layer_config"))
    mapping = part.with_head(family.mapping(family.of_class(config)))
    # a classifier of images takes the tower alone
    towers = () if mapping.get("kind") == "media_encoder" else family.towers
    note_towers(config, [tower.key for tower in towers])
    if mapping.get("kind", "decoder") not in HEADLESS:
        mapping = _with_head(mapping, config, (*family.headed, *part.headed))
    inner = stated_quantization(config)
    quantization = outer or inner
    if data.get("auto_map"):
        config.note("the file points to code of its own (auto_map), which is not run")
    if part.wrapper is None:
        _check_width(config)
        mapping = _with_files_beside(mapping, config)
    config.report_unread_keys()
    _note_refused(family.of_class(config))
    if part.wrapper is not None or towers:
        mapping = _with_towers(whole, mapping, part.config.data)
    imported = {**(before or {}), **mapping, **(over or {})}
    tree = tree_of(imported, whole.places.start)
    if quantization is not None:
        weights = _weights(family, config, wrapped=part.wrapper is not None)
        tree = _quantized(quantization, imported, tree, weights)
    is_sized = _is_sized(whole, config) or _is_named(mapping, config)
    return ImportedConfig(tree, tuple(config.notes), is_sized, is_quantized=quantization is not None)


def _with_files_beside(mapping: Mapped, config: Config) -> Mapped:
    """The mapping with what files beside a config.json say of an encoder of images."""
    if mapping.get("kind") != "media_encoder":
        return mapping
    whole: Mapped = part("media.with_size")(mapping, config)
    return whole


def _with_towers(whole: Config, mapping: Mapped, text: Mapping[str, Any]) -> Mapped:
    """The mapping of a wrapper's language model with the towers that are known."""
    towers_of = optional("media.towers_of")
    if towers_of is None:
        return {**mapping, "uncounted": uncounted(whole, ())}
    whole = innermost(whole)
    notes = len(whole.notes)
    known = towers_of(whole, mapping, text)
    unknown = uncounted(whole, (*known.keys, *known.settled))
    if unknown:
        # a part of the towers alone would be a figure of nothing
        del whole.notes[notes:]
        note_counted(whole, (), known.reasons, known.settled)
        return {**mapping, "uncounted": unknown}
    note_counted(whole, known.keys, {}, known.settled)
    unrun = {"beside": known.beside} if known.beside else {}
    return {**mapping, "towers": known.towers, **unrun} if known.towers else mapping


def _check_width(config: Config) -> None:
    """Note a width that is the class's default; refuse one at a key that the class does not read."""
    widths = (word for name, word in config.defaulted.items() if OUR_WORD.get(name, name) == "d_model")
    word, value = next(widths, ("", 0))
    if not word or not config.sizes - NO_SHAPE:
        return
    unread_width = next((key for key in config.unread_keys() if OUR_WORD.get(key) == "d_model"), None)
    if unread_width is not None:
        what = f"{unread_width} is no key of {config.model_type}, whose width is {word}"
        raise config.error(what, f"without it the class has {value:,}", config.place(unread_width))
    config.note(f"{word} is not stated: {value:,}, the default of its class")


def _note_refused(config: Config) -> None:
    """Note a layer_types whose length is not the number of layers: transformers refuses it."""
    kinds, layers = config.data.get("layer_types"), config.get("num_hidden_layers", default=None)
    if config.reader and isinstance(kinds, list) and isinstance(layers, int) and len(kinds) != layers:
        what = f"layer_types has {len(kinds)} entries for {layers} layers"
        config.note(f"{what}: the class of {config.reader} refuses the file")


def _is_sized(whole: Config, text: Config) -> bool:
    """Whether the file states a size; a wrapper's text part may leave all of them to its class."""
    wrapper = WRAPPERS.get(whole.model_type)
    sizes = text.sizes - NO_SHAPE
    if wrapper is None or wrapper.key in whole.data:
        return wrapper is not None or bool(sizes)
    return not sizes.isdisjoint(whole.data)  # a flat wrapper's defaults stand beside what it states


def _is_named(mapping: Mapped, config: Config) -> bool:
    """Whether a file is of an encoder of images or sounds: without sizes it has the class's defaults."""
    if mapping.get("kind") != "media_encoder" or not config.architecture:
        return False
    if not config.sizes - NO_SHAPE:
        config.note(f"no size is stated: all are the defaults of {config.architecture}")
    return True


def _quantized(quantization: Config, imported: Mapped, tree: Node, weights: WeightMap | None) -> Node:
    """The tree with the `quantization` of its file; as it is where the model cannot be built."""
    # imported for quantized files alone
    from archcli.load.huggingface.quantization.storage import storage
    from archcli.load.loaded import load_tree

    try:
        model = load_tree(tree, [], quantization.places.source.name, (), strict=True).model
    except ArchError:
        return tree
    stored = storage(quantization, model, weights)
    for note in stored.notes:
        quantization.note(note)
    if stored.quantization is None:
        return tree
    return tree_of({**imported, "quantization": stored.quantization}, tree.place)


def weight_map(data: Any, file: str = "config.json") -> WeightMap:
    """The map from checkpoint tensors to archcli's weights for this config.json."""
    whole = _whole(data, unplaced(file))
    part = text_part(whole)
    weights = _weights(_family(part.config), part.config, wrapped=part.wrapper is not None)
    if weights is not None:
        return weights if part.wrapper is None else _naming_towers(weights, whole, part.config)
    what = f"the weight names of {short_repr(part.config.model_type)} are not known"
    raise part.config.error(what, "its totals can be compared")


def _naming_towers(weights: WeightMap, whole: Config, text: Config) -> WeightMap:
    """The map with the names of the towers of a wrapper's file, where all are known."""
    family, inner = _family(text), innermost(whole)
    mapping = _with_towers(whole, family.mapping(family.of_class(text)), text.data)
    rows = part("media.tower_rows")(inner.model_type)
    names = part("media.tower_names")(rows, inner.data, mapping.get("towers", ()))
    return WeightMap(weights.rules, weights.wrapped, weights.ties_unstored, names)


def _weights(family: Family, config: Config, *, wrapped: bool) -> WeightMap | None:
    """The map of a family's weight names; None where they are not known."""
    rules = family.names(family.of_class(config))
    beside_towers = wrapped or bool(family.towers)
    return None if rules is None else WeightMap(rules, beside_towers, family.ties_unstored_head)


def _whole(data: Any, places: KeyPlaces) -> Config:
    """The whole file, with a model_type, which its class or its keys may imply."""
    config = Config(data if isinstance(data, dict) else {}, places)
    if not isinstance(data, dict):
        raise config.error("a config.json is a mapping of keys to values")
    if data.get("model_type") is None:
        kind, reason = _by_class(config.architecture) or _by_keys(data)
        if kind:
            config = replace(config, data={**data, "model_type": kind})
            config.note(f"no model_type: read as {kind}, {reason}")
        elif config.architecture:
            raise _unknown_class(config)
    if config.data.get("model_type") == "mistral" and config.data.get("layer_types") is not None:
        config = replace(config, data={**config.data, "model_type": "ministral"})  # as AutoConfig reads it
    inner = config.data.get(INNER)
    return _of_mlc(config, inner) if isinstance(inner, dict) and _is_around(config.data) else config


def _reader(whole: Config) -> str:
    """The model_type whose class in transformers reads a file; empty where another's code may."""
    kind, stem = whole.model_type, _bare(CLASS_ENDING.sub("", whole.architecture))
    named = _bare(kind)
    if whole.data.get("auto_map") or stem not in ("", named, named.removesuffix("text")):
        return ""
    known = kind in WRAPPERS and kind not in OWN_CODE
    return kind if known or value_at(CLASS_DEFAULTS, kind) is not None else ""


def _is_around(data: Collection[str]) -> bool:
    """Whether a mapping with these keys states no size that an architecture has."""
    return not {*OUR_WORD}.difference(NO_SHAPE, MLC_SIZES).intersection(data)


def _of_mlc(whole: Config, inner: Mapped) -> Config:
    """The config.json in an mlc-chat-config.json, with its lengths at the usual keys."""
    head = {} if whole.model_type == "bert" else {"architectures": ["ForCausalLM"]}  # it embeds, others chat
    renamed = {
        theirs: None if inner[ours] in (-1, 0) else inner[ours]
        for ours, theirs in MLC_SIZES.items()
        if ours in inner
    }
    data = {"model_type": whole.data.get("model_type"), **head, **renamed, **inner}
    whole.note(f"only {INNER} is read: the rest of the file says how an engine runs the model")
    form = whole.data.get("quantization")
    if isinstance(form, str) and form not in MLC_PLAIN:
        data["quantization_config"] = {"quant_method": "mlc", "quantization": form}
    config = Config(data, whole.places.inner(INNER), notes=whole.notes)
    config.ignore(*MLC_SIZES, *MLC_ENGINE)
    return config


def _by_class(name: str) -> tuple[str, str] | None:
    """(model_type, reason) by a class of transformers: Qwen2ForCausalLM is of qwen2."""
    stem = _bare(CLASS_ENDING.sub("", name))
    kinds = (kind for kind in (*families(), *WRAPPERS) if _bare(kind) == stem)
    kind = next(kinds, "") if stem else ""
    return (kind, f"the family of {name}") if kind else None


def _bare(name: str) -> str:
    """A name in lower case without _ and -, which class names and model_types have in other places."""
    return re.sub("[_-]", "", name).lower()


def _unknown_class(config: Config) -> ArchError:
    """The error about a file that names its class alone, one of no known family."""
    what = f"no model_type, and architecture {short_repr(config.architecture)} is of no known family"
    stem = CLASS_ENDING.sub("", config.architecture)
    near = closest(stem, [*families(), *WRAPPERS])
    hint = f"state model_type; nearest known: {', '.join(near)}; " if near else "state model_type; "
    return UndescribedError(config.error(what, hint + BY_CLASS, config.place("architectures")).problems)


def _by_keys(data: Collection[str]) -> tuple[str, str]:
    """(model_type, reason) by the keys of mamba_ssm, or of GPT-2's files of 2019."""
    if MAMBA_SSM_KEYS.issubset(data):
        return "mamba_ssm", "whose files have these keys"
    # GPT has GPT-2's keys and afn, and CTRL dff
    is_gpt2 = GPT2_KEYS.issubset(data) and not {"afn", "dff"}.intersection(data)
    return ("gpt2", "whose first files have these keys") if is_gpt2 else ("", "")


def _family(config: Config) -> Family:
    """The family of the config's model_type."""
    kind = config.model_type
    family = family_of(kind)
    if family is None:
        raise _unknown(kind, config)
    if DRAFT.search(config.architecture):
        what = "this model drafts for another, and its own parts are not known"
        raise config.error(what, f"as a plain {kind} it would be miscounted", config.place("architectures"))
    return family


def _unknown(kind: str, config: Config) -> ArchError:
    known = families()
    text = config.data.get("text_config")
    inner = text.get("model_type") if isinstance(text, dict) else None
    near = closest(kind, [*known, *WRAPPERS])
    hint = f"nearest known: {', '.join(near)}; " if near else ""
    hint += BY_CLASS
    if kind in SYNONYMS:
        hint = f"the class in transformers is of the type {SYNONYMS[kind]!r}"
    if isinstance(inner, str) and inner in known:
        hint = f"its text_config is of the known type {inner!r}; what its class makes of it is not known"
    what = f"model_type {short_repr(kind)} is not supported"
    if kind in OTHER_TOOLS:
        hint = f"no class of transformers is called so: another program wrote the file; {LIST}"
    return UndescribedError(config.error(what, hint, config.place("model_type")).problems)


def _with_head(mapping: Mapped, config: Config, headed: tuple[str, ...]) -> Mapped:
    """The mapping, without its head where the file's class has none."""
    if config.has_head or config.architecture in headed:
        return mapping
    name = config.architecture
    if name and not name.endswith("Model"):
        config.note(f"the head of {name} is not counted, the base model is")
    else:
        called = name or "no architectures: the base model"
        config.note(f"{called} has no output head: its parameters and FLOPs are not counted")
    rest = {key: value for key, value in mapping.items() if key != "mtp"}  # it predicts through the head
    return {**rest, "embedding": {**mapping.get("embedding", {}), "tied": False}, "head": None}
