"""Wings: parts of archcli that plug into its core by registries, and can be left out.

`wing.json` of a wing says what it offers, by the groups of entry points that other packages use:
archcli.commands and others; `archcli.parts` are what the core itself asks for by name. listing.json of a room of it has the names that it adds to a package of
the core: those of wings/media/modules are added to `archcli.modules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from archcli.errors import ArchError

NAMES = ("serving", "media", "running", "drawing", "shapes", "doors")
"""archcli's own wings, there or not, in the order in which what they offer is listed."""


def listings(package: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield (package of a wing, its listing.json) for those that add to a package of the core."""
    room = package.rpartition(".")[2]
    for name in NAMES:
        if stated := read(f"{name}/{room}/listing.json"):
            yield f"{__name__}.{name}.{room}", stated


@cache
def offers(group: str) -> dict[str, str]:
    """What the wings that are there offer to a group of entry points: {"fit": "module:function"}."""
    return {name: place for wing in NAMES for name, place in read(f"{wing}/wing.json").get(group, {}).items()}


def part(name: str) -> Any:
    """What a wing offers to the core, by wing and name: media.read_media.

    Raises ArchError where the wing is not here.
    """
    offered = optional(name)
    if offered is None:
        wing = name.partition(".")[0]
        raise ArchError(
            f"this needs the wing {wing!r} of archcli, which is not here", "install all of archcli"
        )
    return offered


def optional(name: str, default: Any = None) -> Any:
    """The same; without its wing the default."""
    wing, _, offered = name.partition(".")
    place = read(f"{wing}/wing.json").get("archcli.parts", {}).get(offered)
    return default if place is None else imported(place)


def imported(place: str) -> Any:
    """What stands at a place: module:name."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def read(file: str) -> dict[str, dict[str, Any]]:
    """A JSON file below this folder; empty where it is not there."""
    # not above: `python -m archcli` would take it from the current folder, see __main__.py
    import json
    from pathlib import Path

    loader: Any = __spec__.loader  # its own way to data, which a zipped package has as well
    try:
        data: bytes = loader.get_data(str(Path(__file__).parent / file))
    except OSError:
        return {}
    stated: dict[str, dict[str, Any]] = json.loads(data)
    return stated
