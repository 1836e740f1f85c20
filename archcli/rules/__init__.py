"""Design rules: a class for each, a file for each family. `lint` runs them."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from archcli.lazy import make_callable
from archcli.rules.base import DesignRule

TOOLS = frozenset({"base", "diagnostics", "document", "evidence", "lint", "report"})
"""Files of this folder that hold no rules."""


@cache
def all_rules() -> dict[str, DesignRule]:
    """Every rule by its code, in alphabetical order; TypeError where two have the same code."""
    for module in iter_modules(__path__):
        if module.name not in TOOLS:
            import_module(f"{__name__}.{module.name}")
    rules: dict[str, DesignRule] = {}
    for cls in _subclasses(DesignRule):
        if "code" not in vars(cls):  # a base of several rules
            continue
        if cls.code in rules:
            raise TypeError(f"{cls.__name__} and {type(rules[cls.code]).__name__} are both {cls.code}")
        rules[cls.code] = cls()
    return dict(sorted(rules.items()))


def _subclasses(cls: Any) -> list[Any]:
    """All classes below, directly or not."""
    return [below for child in cls.__subclasses__() for below in (child, *_subclasses(child))]


def _design_rules(*args: Any, **options: Any) -> Any:
    """`archcli.rules()`: what `archcli rules` prints."""
    # a function above this floor, looked up when it is called
    return sys.modules["archcli"].design_rules(*args, **options)


make_callable(__name__, _design_rules)
