"""Lazy packages: a name is imported at its first use (PEP 562), so that start-up does not grow.

And packages that are functions, too: `archcli.load` and `archcli.rules`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy(
    package: str, homes: Mapping[str, Iterable[str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a lazy package.

    `homes` maps submodules to their public names; left out, it is read of listing.json at the first use.
    """

    @cache
    def modules() -> dict[str, str]:
        files = listing(package)["names"] if homes is None else homes
        return {name: file for file, names in files.items() for name in names}

    def load(name: str) -> Any:
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules()[name], package), name)
        vars(sys.modules[package])[name] = value  # the next use does not come here
        return value

    return load, lambda: sorted(modules())


@cache
def listing(package: str) -> dict[str, dict[str, Any]]:
    """The listing.json of a package: its public `names` by file, and `kinds` by family if it has any.

    With those of the wings that add to it. `pytest -n0 --renew tests/modules/test_listings.py` writes each
    from the source.
    """
    from archcli.plugins import json_beside, listings  # not before a package is asked for a name

    merged: dict[str, dict[str, Any]] = json_beside(sys.modules[package].__spec__, "listing.json")
    for wing, more in listings(package):
        merged["names"].update({f"{wing}{file}": names for file, names in more["names"].items()})
        for family, kinds in more.get("kinds", {}).items():
            merged["kinds"].setdefault(family, {}).update(kinds)
    return merged


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Let a package be called as a function of its name, which its first import would replace."""

    class CallablePackage(ModuleType):
        """A package that can be called."""

        def __call__(self, *args: Any, **options: Any) -> Any:
            return function(*args, **options)

    # Python looks `__call__` up on the type of a module, so a function of that name in it would not do
    sys.modules[package].__class__ = CallablePackage
