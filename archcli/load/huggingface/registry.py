"""Which file of `families/` reads a model_type, found in listing.json without importing any.

`pytest -n0 --renew tests/load/huggingface/test_registry.py` writes the listing anew.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from archcli.errors import ArchError
from archcli.load.huggingface.family import Family, value_at
from archcli.plugins import installed, listings, loaded

PACKAGE = "archcli.load.huggingface.families"
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
    for _, more in listings(PACKAGE):
        listed.update(more)
    return dict(sorted(listed.items(), key=lambda item: item[0].lower()))


def families() -> dict[str, str]:
    """The name of the file in `families/`, or in a wing's, for each model_type."""
    return {kind: entry["file"] for kind, entry in listing().items() if "file" in entry}


def family_of(model_type: str) -> Family | None:
    """The family of a model_type, archcli's or of an installed distribution; else None.

    Imports its file alone.
    """
    home, entry = PACKAGE, value_at(LISTING, model_type)
    if entry is None:
        of_wings = ((wing, more[model_type]) for wing, more in listings(PACKAGE) if model_type in more)
        home, entry = next(of_wings, (PACKAGE, {}))
    if "file" not in entry:
        return _installed_family(model_type)
    family: Family | None = import_module(f"{home}.{entry['file']}").FAMILIES.get(model_type)
    return family


def _installed_family(model_type: str) -> Family | None:
    """The family that an installed distribution offers for a model_type."""
    entry = next((entry for entry in installed(GROUP) if entry.name == model_type), None)
    if entry is None:
        return None
    family = loaded(entry)
    if not isinstance(family, Family):
        raise ArchError(f"{model_type!r} of {GROUP} ({entry.value}) cannot be used: it is no Family")
    return family
