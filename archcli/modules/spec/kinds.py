"""The class of a (family, `kind`), such as norm, rmsnorm, imported when a file first names it.

The library's kinds stand in its listing.json. Others enter by two doors: `register` in Python, and the
entry-point group `archcli.kinds` of an installed distribution, which is read only where it lacks a kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from archcli.errors import ArchError, quote
from archcli.lazy import listing
from archcli.modules.spec.base import Spec
from archcli.modules.spec.calls import checked
from archcli.plugins import installed

GROUP = "archcli.kinds"
"""The entry-point group: `kind = "package.module:Class"`."""

LIBRARY = "archcli.modules"
KINDS: dict[str, dict[str, str]] = listing(LIBRARY)["kinds"]
"""The name of the library's class by family and kind, in the order in which messages list them."""

IMPLIED: dict[str, dict[str, str]] = {"block": {"use": "shared"}}
"""By family, keys that imply a kind where none is stated: a block with `use` is of kind shared."""

KIND = re.compile(r"[A-Za-z]\w*", re.ASCII)
PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

registered: dict[str, str] = {}
"""Classes entered by `register`, as module:Class, by kind."""


@checked
def register(kind: str, place: str) -> None:
    """Let YAML files name your class by its kind: `register("mamba", "my_package.mamba:Mamba")`.

    An installed distribution does so by an entry point of `archcli.kinds`. The class is imported when a file
    first names it. ArchError if the kind is taken.
    """
    if not KIND.fullmatch(kind):
        raise ArchError(f"{quote(kind)} is no name of a kind", "write letters, digits and _")
    if not PLACE.fullmatch(place):
        raise ArchError(f"{quote(place)} is no place of a class", "write my_package.module:Class")
    if registered.setdefault(kind, place) != place:
        raise ArchError(f"kind {kind!r} is registered as {registered[kind]} already", "give it another name")
    # a kind of the library may be free in another family, which only the class itself states
    if any(kind in names for names in KINDS.values()):
        try:
            _outsider(kind)
        except ArchError:
            del registered[kind]
            raise


def find(family: str, kind: str) -> type[Spec] | None:
    """The class for a kind of a family, or None. Imports only that class."""
    if (name := KINDS.get(family, {}).get(kind)) is not None:
        return _imported(f"{LIBRARY}:{name}")
    cls = _outsider(kind) if kind else None
    return cls if cls is not None and cls.family == family else None


def kinds(family: str) -> dict[str, type[Spec]]:
    """Every class of a family by kind, the library's first.

    Imports them all, and all registered or installed ones.
    """
    classes = {kind: _imported(f"{LIBRARY}:{name}") for kind, name in KINDS.get(family, {}).items()}
    for kind in dict.fromkeys([*registered, *(entry.name for entry in installed(GROUP))]):
        if (cls := _outsider(kind)) is not None and cls.family == family:
            classes[kind] = cls
    return classes


def _outsider(kind: str) -> type[Spec] | None:
    """The class registered for a kind, or offered by an installed distribution; else None."""
    if not (claims := list(_claims(kind))):
        return None
    if len(claims) > 1:
        claimants = " and by ".join(claimant for claimant, _ in claims)
        raise ArchError(f"kind {kind!r} is claimed by {claimants}", "uninstall one of them")
    [(claimant, place)] = claims
    return _conforming(kind, claimant, place)


def _claims(kind: str) -> Iterator[tuple[str, str]]:
    """(source, "module:Class") of every registration or installed entry point for a kind."""
    if kind in registered:
        yield "archcli.register", registered[kind]
    for entry in installed(GROUP):
        if entry.name == kind:
            yield f"the distribution {entry.dist.name if entry.dist else '?'}", entry.value


@cache
def _conforming(kind: str, claimant: str, place: str) -> type[Spec]:
    """Import the class at `place`; it must be a Spec with that kind, and the kind must be free."""
    try:
        cls = _imported(place)
        reason = _unfit(cls, kind)
    except Exception as error:  # noqa: BLE001  # an outsider's code may raise anything
        reason = f"{type(error).__name__}: {error}"
    if reason:
        raise ArchError(f"kind {kind!r} of {claimant} ({place}) cannot be used: {reason}")
    return cls


def _unfit(cls: Any, kind: str) -> str:
    """The reason why a class cannot be registered for a kind; empty where it can."""
    if not (isinstance(cls, type) and issubclass(cls, Spec) and cls.family):
        return "it is no module that belongs to a family"
    if kind_of(cls) != kind:
        return f"the class says kind {kind_of(cls)!r}"
    if kind in KINDS.get(cls.family, {}):
        return f"{cls.family} has that kind already"
    for field in cls.fields.values():
        _ = field.type  # reads the annotation, which nobody may have done yet
    return ""


def kind_of(cls: Any) -> str:
    """The `kind` of a class or a module that has one, else an empty text."""
    kind = getattr(cls, "kind", "")
    return kind if isinstance(kind, str) else ""


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
