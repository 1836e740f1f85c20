"""Quantization in a file beside a config.json, for a config.json without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from archcli.errors import ArchError
from archcli.load.hub.cache import OF_MODELOPT
from archcli.load.huggingface.config_json import ConfigJson
from archcli.load.huggingface.quantization.scheme import KEYS, OF_MLX
from archcli.load.yaml.text import decode, read_start

FILES = (OF_MODELOPT, "quantization_config.json", "quantize_config.json", "quant_config.json")
"""Files of ModelOpt, AutoRound and exllamav3, AutoGPTQ and AutoAWQ."""
LAYERS = "quantized_layers"


def with_sibling(config: ConfigJson, folder: Path) -> tuple[ConfigJson, tuple[str, ...]]:
    """The config.json with the quantization of a file in its folder, and a note that names the file.

    As it is where it states one; that of ModelOpt's mixed precision is completed where it lacks the layers.
    """
    setting = _declared(config.data)
    is_partial = isinstance(setting, dict) and _is_partial(setting)
    if setting and not is_partial:
        return config, ()
    for name in FILES[:1] if is_partial else FILES:
        path = folder / name
        content, note = _read(path) if path.is_file() else (None, "")
        if content is not None:
            data = {**config.data, KEYS[0]: {**(setting or {}), **content}}
            return config._replace(data=data), (f"quantization_config is read from {name} beside it",)
        if note:
            return config, (note,)
    return config, ()


def _declared(data: Any) -> Any:
    """What the file states itself, for all of it or for its text part."""
    text = data.get("text_config")
    parts = (data, text) if isinstance(text, dict) else (data,)
    return next((part[key] for part in parts for key in (*KEYS, OF_MLX) if part.get(key)), None)


def _is_partial(setting: dict[str, Any]) -> bool:
    """Whether a mixed precision lacks its layers."""
    algorithm = setting.get("quant_algo")
    return algorithm == "MIXED_PRECISION" and not {LAYERS, "moe_quant_algo"}.intersection(setting)


def _read(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The quantization that a file states, and a note where it cannot be read; None for no quantization."""
    try:
        data = json.loads(decode(read_start(path, str(path)), str(path)))
    except (ValueError, RecursionError, ArchError):
        data = None
    if not isinstance(data, dict):
        return None, f"{path.name} is no JSON object, and not read"
    inner = data.get("quantization")
    if path.name != OF_MODELOPT:
        return data, ""
    content = inner if isinstance(inner, dict) else data
    # a file that says of the cache alone how it is kept
    return ({"quant_method": "modelopt", **content}, "") if content.get("quant_algo") else (None, "")
