"""Wings and plugins: registries by which parts of archcli and other packages add to its core.

`wing.json` of a wing says which others it reads, and what it offers by the groups of entry points that other
packages use, such as archcli.commands; `archcli.parts` is what the core asks for by name. listing.json of a
room of a wing has names for a package of the core: those of wings/media/modules are in `archcli.modules`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

INFO = (".dist-info", ".egg-info")
"""Endings of folders in which distributions say what they offer."""
NAMES = ("serving", "media", "running", "drawing", "shapes", "doors")
"""archcli's own wings, there or not, in the order in which what they offer is listed."""


@cache
def present() -> tuple[str, ...]:
    """The wings that are installed, each with all the wings that it imports."""
    return tuple(name for name in NAMES if _is_whole(name))


def all_present() -> bool:
    """Whether no wing is left out."""
    return present() == NAMES


def _is_whole(name: str) -> bool:
    manifest = read(f"{name}/wing.json")
    return bool(manifest) and all(map(_is_whole, manifest["reads"]))


def listings(package: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield (package of a wing, its listing.json) for those that add to a package of the core."""
    room = package.rpartition(".")[2]
    for name in present():
        if names := read(f"{name}/{room}/listing.json"):
            yield f"archcli.wings.{name}.{room}", names


@cache
def offers(group: str) -> dict[str, str]:
    """What the wings that are there offer to a group of entry points: {"fit": "module:function"}."""
    return {
        name: place for wing in present() for name, place in read(f"{wing}/wing.json").get(group, {}).items()
    }


def part(name: str) -> Any:
    """What a wing offers to the core, by wing and name: media.read_media.

    Raises ArchError where the wing is not here.
    """
    offered = optional(name)
    if offered is None:
        what = f"this needs the wing {name.partition('.')[0]!r} of archcli, which is not here"
        raise ArchError(what, "install all of archcli")
    return offered


def optional(name: str, default: Any = None) -> Any:
    """The same; without its wing the default."""
    wing, _, offered = name.partition(".")
    parts = parts_of(wing)
    return default if parts is None else imported(parts[offered])


def parts_of(wing: str) -> dict[str, str] | None:
    """The places of what a wing offers to the core by name; None where it is not here."""
    places: dict[str, str] = read(f"{wing}/wing.json").get("archcli.parts", {})
    return places if wing in present() else None


def imported(place: str) -> Any:
    """What stands at a place: module:name."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def read(file: str) -> dict[str, Any]:
    """A JSON file of the wings; empty where it is not there."""
    try:
        return json_beside(__spec__, f"wings/{file}")
    except OSError:
        return {}


def json_beside(spec: Any, file: str) -> dict[str, Any]:
    """A JSON file beside the source of a module or package. Raises OSError where there is none."""
    # not above: `python -m archcli` would take them from the current folder, see __main__.py
    import json
    from pathlib import Path

    # the loader's own way to data, which a zipped package has as well
    content: dict[str, Any] = json.loads(spec.loader.get_data(str(Path(spec.origin).parent / file)))
    return content


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """What installed distributions offer to a group of entry points: archcli.kinds, archcli.families."""
    if not any(_offers(folder, f"[{group}]") for folder in sys.path):
        return ()
    from importlib.metadata import entry_points  # some 20 ms, spent where a distribution offers something

    return tuple(entry_points(group=group))


def _offers(folder: str, section: str) -> bool:
    """Whether a distribution in a folder of sys.path may have entry points of a section."""
    try:
        infos = [entry.path for entry in os.scandir(folder or ".") if entry.name.endswith(INFO)]
    except NotADirectoryError:
        return True  # a zip, which importlib.metadata reads
    except OSError:
        return False
    return any(section in read_entry_points(path) for path in infos)


def read_entry_points(info: str) -> str:
    """The text of the entry points of a distribution; empty without any."""
    try:
        with open(f"{info}/entry_points.txt", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def every(group: str) -> Iterator[Any]:
    """Import one after the other what wings, then installed distributions, offer to a group."""
    yield from (imported(place) for place in offers(group).values())
    yield from map(loaded, installed(group))


def loaded(entry: EntryPoint) -> Any:
    """Import what an entry point names. Raises ArchError where that fails."""
    try:
        return entry.load()
    except Exception as error:  # noqa: BLE001  # an outsider's code may raise anything
        what = f"{entry.name!r} of {entry.group} ({entry.value}) cannot be used"
        raise ArchError(f"{what}: {type(error).__name__}: {error}") from None
