"""The file of what is recorded of presets for `archcli fit`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("figures.json")


@cache
def figures() -> dict[str, Any]:
    """The whole file; without a preset where it is left out."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"presets": {}}
