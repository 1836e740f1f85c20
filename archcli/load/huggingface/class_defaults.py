"""Defaults of classes in transformers, by model_type, of the keys that archcli reads.

They stand in class_defaults.json, a line a class, which `tests/mappings/test_class_defaults.py` makes. No
part of archcli imports transformers to read a config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

FILE = Path(__file__).with_name("class_defaults.json")


@cache
def _text() -> str:
    return FILE.read_text(encoding="utf-8")


@cache
def class_defaults(model_type: str) -> Mapping[str, Any]:
    """The defaults of the class of a model_type; none where transformers has no such class."""
    # one of some 200 lines is parsed: all of them would take longer than the import of a file
    text, name = _text(), f"\n{json.dumps(model_type)}: "
    start = text.find(name)
    if start < 0:
        return MappingProxyType({})
    line = text[start + len(name) : text.index("\n", start + 1)]
    return MappingProxyType(json.loads(line.rstrip(",")))
