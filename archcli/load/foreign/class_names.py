"""What a base model's class calls its modules: by its config.json, or of a preset by its model_type."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import Auxiliary, Rule, WeightMap, parts_of
from archcli.load.loaded import Loaded

PRESETS = Path(__file__).with_name("preset_classes.json")
"""The model_type of each preset; made by `tests/load/foreign/test_preset_classes.py`."""
APART = Path(__file__).with_name("experts_apart.json")
"""Types with a layer for each expert in transformers 4; made by `tests/helpers/experts_apart.py`."""
SAME_CLASS = {"kimi_k2": "deepseek_v3"}
"""Types whose repositories hold a copy of a class of transformers."""
NUMBERED = re.compile(r"\.\d+\.")


class ClassNames(NamedTuple):
    """The names of a class's modules.

    kind: its model_type. experts_apart: transformers 4 has held its experts as linear layers.
    """

    weights: WeightMap
    kind: str
    experts_apart: bool


def class_names(base: Loaded) -> ClassNames | None:
    """The names of a base model; None where its class is not known."""
    kind = inner = "" if base.config is not None else _of_preset(base)
    try:
        if base.config is not None:
            weights = weight_map(base.config)
            kind, inner = str(base.config.get("model_type")), _innermost(base.config)
        elif kind:
            named = "ForConditionalGeneration" if hasattr(base.model, "encoder") else "ForCausalLM"
            weights = _of_all_layers(weight_map({"model_type": kind, "architectures": [named]}))
        else:
            return None
    except ArchError:
        return None
    return ClassNames(weights, SAME_CLASS.get(kind, kind), SAME_CLASS.get(inner, inner) in _experts_apart())


def _of_preset(base: Loaded) -> str:
    """The model_type of a preset; empty for another model."""
    if not base.source.startswith("preset "):
        return ""
    return preset_types().get(base.name, "")


@cache
def preset_types() -> dict[str, str]:
    """The model_type of each preset that comes from a class."""
    kinds: dict[str, str] = json.loads(PRESETS.read_text(encoding="utf-8"))
    return kinds


@cache
def _experts_apart() -> frozenset[str]:
    return frozenset(json.loads(APART.read_text(encoding="utf-8"))["model_types"])


def _innermost(config: dict[str, object]) -> str:
    inner = config.get("text_config")
    kind = (inner if isinstance(inner, dict) else config).get("model_type") or config.get("model_type")
    return str(kind)


def _of_all_layers(weights: WeightMap) -> WeightMap:
    """The names of the layers of a class's default config, for layers of any number."""
    rules: dict[str, Rule] = {}
    for stored, rule in weights.rules.items():
        if isinstance(rule, Auxiliary):
            continue
        parts = parts_of(rule)
        ours = tuple(NUMBERED.sub(".*.", path, count=1) for path in parts.ours)
        # a number within a layer, such as that of CTRL's ffn.0, stays
        name = stored if ours == parts.ours else NUMBERED.sub(".*.", stored, count=1)
        rules[name] = replace(parts, ours=ours)
    return WeightMap(rules, weights.wrapped)
