"""What a Hugging Face config.json stands for: one file per family turns it into the mapping that YAML would hold.

Families are found by walking this folder: a module with `MODEL_TYPES` and `mapping(config)`. Only the one that is asked for is
imported. Nothing here runs code of a repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.config import Config, Mapped, shown
from archcli.load.huggingface.weights import WeightMap

FAMILIES = Path(__file__).parent / "families"
STATED = re.compile(r"^MODEL_TYPES = (\(.*?\))$", re.MULTILINE | re.DOTALL)


MOST_COMPARED = 100


class Understood(NamedTuple):
    """Our YAML as plain data, and what the user should know of how it was read."""

    mapping: Mapped
    notes: tuple[str, ...]


def families() -> dict[str, str]:
    """model_type to the name of the module that knows it, of all families, none of which is imported."""
    found = {}
    for path in sorted(FAMILIES.glob("*.py")):
        stated = STATED.search(path.read_text(encoding="utf-8"))
        found.update(dict.fromkeys(ast.literal_eval(stated[1]) if stated else (), path.stem))
    return found


def understand(data: Any, file: str = "config.json") -> Understood:
    """The mapping of a whole config.json. Raises ArchError where it is of no known family, or says what cannot be expressed."""
    if not isinstance(data, dict):
        raise ArchError(Problem(f"{file}: a config.json is a mapping of keys to values"))
    family = _family(data, file)
    config = Config(_text(data, family, file), file)
    if data is not config.data:
        _note_towers(data, config)
    if config.get("per_layer_config", default=None):
        raise ArchError(
            Problem(
                f"{file}: per_layer_config is not supported",
                "layers that differ are written as groups in a YAML",
            )
        )
    mapping = family.mapping(config)
    if mapping.get("kind", "decoder") != "encoder":
        mapping = _with_head(mapping, config, getattr(family, "HEADED", ()))
    _note_storage(data, config)
    config.report_leftovers()
    return Understood(mapping, tuple(config.notes))


def weight_map(data: Any, file: str = "config.json") -> WeightMap:
    """Which of our weights each tensor of a checkpoint with this config.json becomes."""
    if not isinstance(data, dict):
        raise ArchError(Problem(f"{file}: a config.json is a mapping of keys to values"))
    family = _family(data, file)
    stated = getattr(family, "weights", None)
    table = (
        getattr(family, "WEIGHTS", None)
        if stated is None
        else stated(Config(_text(data, family, file), file))
    )
    if table is None:
        raise ArchError(
            Problem(
                f"{file}: the weight names of {shown(data['model_type'])} are not known",
                "its totals can be compared",
            )
        )
    return WeightMap(table)


def _family(data: Mapping[str, Any], file: str) -> ModuleType:
    """The module that knows the file's model_type."""
    kind = data.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise ArchError(Problem(f"{file}: key 'model_type' is missing", "it names the family, such as llama"))
    known = {kind: kind} if _is_module(kind) else families()
    if kind not in known:
        raise _unknown(kind, data, known, file)
    family = import_module(f"archcli.load.huggingface.families.{known[kind]}")
    if kind not in getattr(family, "MODEL_TYPES", ()):
        raise _unknown(kind, data, families(), file)
    return family


def _is_module(kind: str) -> bool:
    return kind.isidentifier() and (FAMILIES / f"{kind}.py").is_file()


def _unknown(kind: str, data: Mapping[str, Any], known: Mapping[str, str], file: str) -> ArchError:
    from difflib import get_close_matches

    inner = data.get("text_config")
    inner = inner.get("model_type") if isinstance(inner, dict) else None
    inner = inner if isinstance(inner, str) else None
    near = get_close_matches(kind[:MOST_COMPARED], known, n=3, cutoff=0.5) or sorted(known)
    hint = (
        f"its text_config is of the known type {inner!r}: give that part alone"
        if inner in known
        else "nearest known: " + ", ".join(near)
    )
    return ArchError(Problem(f"{file}: model_type {shown(kind)} is not supported", hint))


def _text(data: Mapping[str, Any], family: ModuleType, file: str) -> Mapping[str, Any]:
    """The part that describes the language model, with the head and the tie that the whole file states."""
    kind = data["model_type"]
    within = getattr(family, "TEXT_TYPE", {}).get(kind)
    if within is None:
        return data
    text = data.get("text_config") or {}
    if not isinstance(text, dict):
        raise ArchError(Problem(f"{file}: text_config must be a mapping, not {shown(text)}"))
    if text.get("model_type", within) not in family.MODEL_TYPES:
        raise ArchError(
            Problem(
                f"{file}: a text_config of model_type {shown(text['model_type'])} is not supported in a {kind}",
                f"supported: {within}",
            )
        )
    whole = {key: data[key] for key in ("tie_word_embeddings",) if data.get(key) is not None}
    return {
        **whole,
        **text,
        "model_type": within,
        "architectures": data.get("architectures") or ["ForConditionalGeneration"],
    }


def _note_towers(data: Mapping[str, Any], config: Config) -> None:
    """Name what stands beside the language model, and the keys of the whole file that no one reads."""
    config.note("only the language model is counted (text_config)")
    for key in data:
        if key.endswith("_config") and key not in ("text_config", "quantization_config"):
            config.note(
                f"{key.removesuffix('_config')} tower ({key}) is not counted, nor what joins it to the language model"
            )
    outer = {
        key: value
        for key, value in data.items()
        if not key.endswith("_config") and key != "tie_word_embeddings"
    }
    Config(outer, config.file, notes=config.notes).report_leftovers()


def _with_head(mapping: Mapped, config: Config, headed: tuple[str, ...]) -> Mapped:
    """The mapping as it is where the file's class has a head over the vocabulary; else the base model, which has none."""
    if config.has_head or config.architecture in headed:
        return mapping
    name = config.architecture
    if name and not name.endswith("Model"):
        config.note(f"the head of {name} is not counted, the base model is")
    else:
        config.note(
            f"{name or 'no architectures: the base model'} has no output head: its parameters and FLOPs are not counted"
        )
    rest = {key: value for key, value in mapping.items() if key != "mtp"}  # it predicts through the head
    return {**rest, "embedding": {**mapping.get("embedding", {}), "tied": False}, "head": None}


def _note_storage(data: Mapping[str, Any], config: Config) -> None:
    if data.get("quantization_config"):
        config.note(
            "the file states a quantization (quantization_config); parameters are counted, not what they are stored as"
        )
        config.ignore("quantization_config")
    if data.get("auto_map"):
        config.note("the file points to code of its own (auto_map), which is not run")
