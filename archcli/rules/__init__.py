"""The rules of design: one file per family, one class per rule, found by walking this folder. `lint` runs them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from archcli.rules.base import Rule

TOOLS = frozenset({"base", "diagnostics", "document", "evidence", "lint", "report"})
"""Files of this folder that hold no rules."""


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, in alphabetical order. Two rules of one code are an error."""
    for module in iter_modules(__path__):
        if module.name not in TOOLS:
            import_module(f"{__name__}.{module.name}")
    found: dict[str, Rule] = {}
    for cls in _stated(Rule):
        if cls.code in found:
            raise TypeError(f"{cls.__name__} and {type(found[cls.code]).__name__} are both {cls.code}")
        found[cls.code] = cls()
    return dict(sorted(found.items()))


def _stated(cls: Any) -> list[Any]:
    """The classes below that state a code; one that only shares code with others states none."""
    own = [cls] if "code" in vars(cls) else []
    return own + [found for child in cls.__subclasses__() for found in _stated(child)]
