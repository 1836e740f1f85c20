"""The only parser of untrusted input: files, overrides and names of models, to modules.

`archcli.load("llama-3.1-8b")` returns the model; `archcli.load.source.load` also its name, source and places.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archcli.modules import Module


class CallablePackage(ModuleType):
    """A package that can be called.

    A function `archcli.load` would be replaced by this package with the first import from it.
    """

    def __call__(self, model: str, overrides: Sequence[str] = ()) -> Module:
        from archcli.load.source import load

        return load(model, overrides).model


sys.modules[__name__].__class__ = CallablePackage
