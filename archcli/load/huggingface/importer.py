"""Import of a Hugging Face config.json as the node tree of a YAML.

A family is a module of `families/` with `MODEL_TYPES` and `mapping(config)`. Only the one that is asked for
is imported. Nothing here runs code of a repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.places import KeyPlaces, unplaced
from archcli.load.huggingface.value import Mapped, tree_of
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.yaml.nodes import Node

FAMILIES = Path(__file__).parent / "families"
TYPES = re.compile(r"^MODEL_TYPES = (\(.*?\))$", re.MULTILINE | re.DOTALL)
MOST_COMPARED = 100


class ImportedConfig(NamedTuple):
    """The node tree of an imported architecture, with the places of its values and notes."""

    tree: Node
    notes: tuple[str, ...]


def families() -> dict[str, str]:
    """The family module's name for each model_type, found without importing any."""
    modules = {}
    for path in sorted(FAMILIES.glob("*.py")):
        types = TYPES.search(path.read_text(encoding="utf-8"))
        modules.update(dict.fromkeys(ast.literal_eval(types[1]) if types else (), path.stem))
    return modules


def import_config(
    data: Any, places: KeyPlaces | None = None, before: Mapped | None = None, over: Mapped | None = None
) -> ImportedConfig:
    """Import a config.json; keys `before` precede the imported ones, keys `over` replace them.

    Raises ArchError where it is of no known family, or says what cannot be expressed.
    """
    places = places or unplaced("config.json")
    family = _family(data, places)
    config = _text(data, family, places)
    if data is not config.data:
        _note_towers(data, config, places)
    if config.get("per_layer_config", default=None):
        hint = "layers that differ are written as groups in a YAML"
        raise config.error("per_layer_config is not supported", hint, config.place("per_layer_config"))
    mapping = family.mapping(config)
    if mapping.get("kind", "decoder") != "encoder":
        mapping = _with_head(mapping, config, getattr(family, "HEADED", ()))
    _note_storage(data, config)
    config.report_unread_keys()
    whole = {**(before or {}), **mapping, **(over or {})}
    return ImportedConfig(tree_of(whole, places.start), tuple(config.notes))


def weight_map(data: Any, file: str = "config.json") -> WeightMap:
    """The map from checkpoint tensors to archcli's weights for this config.json."""
    places = unplaced(file)
    family = _family(data, places)
    if hasattr(family, "weights"):
        return WeightMap(family.weights(_text(data, family, places)))
    if hasattr(family, "WEIGHTS"):
        return WeightMap(family.WEIGHTS)
    what = f"the weight names of {short_repr(data['model_type'])} are not known"
    raise Config(data, places).error(what, "its totals can be compared")


def _family(data: Any, places: KeyPlaces) -> ModuleType:
    """The family module for the file's model_type."""
    config = Config(data if isinstance(data, dict) else {}, places)
    if not isinstance(data, dict):
        raise config.error("a config.json is a mapping of keys to values")
    kind = data.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise config.error("key 'model_type' is missing", "it names the family, such as llama")
    known = {kind: kind} if _is_module(kind) else families()
    if kind not in known:
        raise _unknown(kind, config, known)
    family = import_module(f"archcli.load.huggingface.families.{known[kind]}")
    if kind not in getattr(family, "MODEL_TYPES", ()):
        raise _unknown(kind, config, families())
    return family


def _is_module(kind: str) -> bool:
    return kind.isidentifier() and (FAMILIES / f"{kind}.py").is_file()


def _unknown(kind: str, config: Config, known: Mapping[str, str]) -> ArchError:
    from difflib import get_close_matches

    text = config.data.get("text_config")
    inner = text.get("model_type") if isinstance(text, dict) else None
    if isinstance(inner, str) and inner in known:
        hint = f"its text_config is of the known type {inner!r}: give that part alone"
    else:
        near = get_close_matches(kind[:MOST_COMPARED], known, n=3, cutoff=0.5) or sorted(known)
        hint = "nearest known: " + ", ".join(near)
    what = f"model_type {short_repr(kind)} is not supported"
    return config.error(what, hint, config.place("model_type"))


def _text(data: Mapping[str, Any], family: ModuleType, places: KeyPlaces) -> Config:
    """The text part of a multimodal config.json, with the head and tie of the whole file."""
    kind = data["model_type"]
    within = getattr(family, "TEXT_TYPE", {}).get(kind)
    whole = Config(data, places)
    if within is None:
        return whole
    text, inner = data.get("text_config") or {}, places.inner("text_config")
    if not isinstance(text, dict):
        what = f"text_config must be a mapping, not {short_repr(text)}"
        raise whole.error(what, at=whole.place("text_config"))
    if text.get("model_type", within) not in family.MODEL_TYPES:
        stated = short_repr(text["model_type"])
        what = f"a text_config of model_type {stated} is not supported in a {kind}"
        raise whole.error(what, f"supported: {within}", inner.place("model_type"))
    tie = {key: data[key] for key in ("tie_word_embeddings",) if data.get(key) is not None}
    outer = {key: places.places[key] for key in (*tie, "architectures") if key in places.places}
    classes = data.get("architectures") or ["ForConditionalGeneration"]
    return Config(
        {**tie, **text, "model_type": within, "architectures": classes},
        inner._replace(places={**outer, **inner.places}),
    )


def _note_towers(data: Mapping[str, Any], config: Config, places: KeyPlaces) -> None:
    """Note the towers besides the language model, and the unread keys of the whole file."""
    config.note("only the language model is counted (text_config)")
    for key in data:
        if key.endswith("_config") and key not in ("text_config", "quantization_config"):
            tower = key.removesuffix("_config")
            config.note(f"{tower} tower ({key}) is not counted, nor what joins it to the language model")
    outer = {key: value for key, value in data.items() if not key.endswith("_config")}
    outer.pop("tie_word_embeddings", None)
    Config(outer, places, notes=config.notes).report_unread_keys()


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


def _note_storage(data: Mapping[str, Any], config: Config) -> None:
    if data.get("quantization_config"):
        what = "the file states a quantization (quantization_config); "
        config.note(what + "parameters are counted, not what they are stored as")
        config.ignore("quantization_config")
    if data.get("auto_map"):
        config.note("the file points to code of its own (auto_map), which is not run")
