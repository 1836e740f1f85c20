"""Which class a `kind` names, by family (`norm`, `attention`, `ffn`, …).

Classes enter by being defined; a second claim to a kind is an error.
"""

from __future__ import annotations

_KINDS: dict[str, dict[str, type]] = {}


def register(family: str, kind: str, cls: type) -> None:
    """Let `kind` name `cls` within `family`."""
    taken = _KINDS.setdefault(family, {}).setdefault(kind, cls)
    if taken is not cls and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"{family} kind {kind!r} is {taken.__qualname__} already")


def kinds(family: str) -> dict[str, type]:
    """All kinds of a family, in the order of their definition."""
    return _KINDS.get(family, {})
