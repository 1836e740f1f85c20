"""The only reader of files: YAML and overrides to modules, with a place for every problem.

`archcli.load("llama-3.1-8b")` returns the model. For its name, its source and its places there is `archcli.load.source.load`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archcli.modules import Module


class _Door(ModuleType):
    """Lets the package be called: as `archcli.load` is its name, a function of that name would vanish with the first import from it."""

    def __call__(self, model: str, overrides: Sequence[str] = ()) -> Module:
        from archcli.load.source import load

        return load(model, overrides).model


sys.modules[__name__].__class__ = _Door
