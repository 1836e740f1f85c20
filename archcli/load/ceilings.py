"""What was once measured of this machine, kept between runs: a small JSON in the user's cache folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def ceilings_file() -> Path:
    """$XDG_CACHE_HOME/archcli/ceilings.json, or ~/.cache/archcli/ceilings.json."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "archcli" / "ceilings.json"


def kept_ceilings(path: Path) -> dict[str, dict[str, Any]]:
    """What the file holds by key; nothing where it is absent, unreadable or no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(each, dict) for each in found.values()) else {}
