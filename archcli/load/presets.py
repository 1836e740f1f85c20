"""The presets' index: the shape of every preset as data, made from them and shipped beside them; nobody has to count them all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from archcli.load.source import folder


@cache
def presets_index() -> Sequence[Mapping[str, Any]]:
    """A record for each preset; a test keeps it current."""
    path = folder() / "index.json"
    records: Sequence[Mapping[str, Any]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    )
    return records
