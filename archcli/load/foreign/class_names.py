"""What a base model's class calls its modules: by its config.json, or of a preset by its model_type."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import Auxiliary, Rule, WeightMap, parts_of
from archcli.load.loaded import Loaded

PRESETS = Path(__file__).with_name("preset_classes.json")
"""model_types by patterns of presets' names, of which the longest that fits counts."""
NUMBERED = re.compile(r"\.\d+\.")
OF_4 = """
    deepseek_v2 deepseek_v3 dots1 ernie4_5_moe flex_olmo glm4_moe glm4v_moe_text hunyuan_v1_moe jamba kimi_k2
    longcat_flash minimax mixtral nllb-moe olmoe phimoe qwen2_moe qwen3_moe qwen3_next switch_transformers
"""
"""Families whose class in transformers 4.57.6 holds experts and router as linear layers."""


class ClassNames(NamedTuple):
    """The names of a class's modules; whether transformers 4 has held its experts as linear layers."""

    weights: WeightMap
    experts_apart: bool


def class_names(base: Loaded) -> ClassNames | None:
    """The names of a base model; None where its class is not known."""
    kind = "" if base.config is not None else _of_preset(base)
    try:
        if base.config is not None:
            weights = weight_map(base.config)
            kind = _innermost(base.config)
        elif kind:
            weights = _of_all_layers(weight_map({"model_type": kind, "architectures": ["ForCausalLM"]}))
        else:
            return None
    except ArchError:
        return None
    return ClassNames(weights, kind in OF_4.split())


def _of_preset(base: Loaded) -> str:
    """The model_type of a preset; empty for another model."""
    if not base.source.startswith("preset "):
        return ""
    kinds = _kinds_of_presets()
    patterns = [pattern for pattern in kinds if fnmatchcase(base.name, pattern)]
    return kinds[max(patterns, key=len)] if patterns else ""


@cache
def _kinds_of_presets() -> dict[str, str]:
    kinds: dict[str, str] = json.loads(PRESETS.read_text(encoding="utf-8"))
    return kinds


def _innermost(config: dict[str, object]) -> str:
    inner = config.get("text_config")
    kind = (inner if isinstance(inner, dict) else config).get("model_type") or config.get("model_type")
    return str(kind)


def _of_all_layers(weights: WeightMap) -> WeightMap:
    """The names of the layers of a class's default config, for layers of any number."""
    rules: dict[str, Rule] = {}
    for name, rule in weights.rules.items():
        if isinstance(rule, Auxiliary):
            continue
        ours = tuple(NUMBERED.sub(".*.", path, count=1) for path in parts_of(rule).ours)
        rules[NUMBERED.sub(".*.", name, count=1)] = replace(parts_of(rule), ours=ours)
    return WeightMap(rules, weights.wrapped)
