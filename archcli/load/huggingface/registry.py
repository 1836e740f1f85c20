"""Which file of `families/` reads a model_type, found in listing.json without importing any.

`pytest -n0 --renew tests/load/huggingface/test_registry.py` writes the listing anew.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError
from archcli.load.huggingface.family import Family, value_at

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FOLDER = Path(__file__).parent / "families"
LISTING = FOLDER / "listing.json"
GROUP = "archcli.families"
"""The entry points by which an installed distribution offers families of its own."""


def listing() -> dict[str, dict[str, Any]]:
    """The entry of each model_type, wrappers included.

    file: the one of `families/` that reads it; a wrapper has none.
    what: a line about it.
    classes: those in transformers that tests hold it against, and `held`, in what.
    """
    listed: dict[str, dict[str, Any]] = json.loads(LISTING.read_text("utf-8"))
    return listed


def families() -> dict[str, str]:
    """The name of the file in `families/` for each model_type."""
    return {kind: entry["file"] for kind, entry in listing().items() if "file" in entry}


def family_of(model_type: str) -> Family | None:
    """The family of a model_type, archcli's or of an installed distribution; else None.

    Imports its file alone.
    """
    entry = value_at(LISTING, model_type) or {}
    if "file" not in entry:
        return _installed_family(model_type)
    module = import_module(f"archcli.load.huggingface.families.{entry['file']}")
    family: Family | None = module.FAMILIES.get(model_type)
    return family


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The families of all installed distributions."""
    from importlib.metadata import entry_points  # some 10 ms, needed where archcli has no such family

    return tuple(entry_points(group=GROUP))


def _installed_family(model_type: str) -> Family | None:
    """The family that an installed distribution offers for a model_type."""
    entry = next((entry for entry in _installed() if entry.name == model_type), None)
    if entry is None:
        return None
    try:
        loaded = entry.load()
    except Exception as error:  # noqa: BLE001  # an outsider's code may raise anything
        what = f"the family {model_type!r} ({entry.value}) cannot be used"
        raise ArchError(f"{what}: {type(error).__name__}: {error}") from None
    if not isinstance(loaded, Family):
        raise ArchError(f"the family {model_type!r} ({entry.value}) cannot be used: it is no Family")
    return loaded
