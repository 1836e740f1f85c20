"""JSON files of one object with a key a line, of which one value is read without the others."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def value_at(path: Path, key: str) -> Any:
    """The value of a key; None where the file has no line for it."""
    text, name = _text(path), f"\n{json.dumps(key)}: "
    start = text.find(name)
    if start < 0:
        return None
    # one line is parsed: all of some 200 would take longer than the import of a config.json
    line = text[start + len(name) : text.index("\n", start + 1)]
    return json.loads(line.rstrip(","))
