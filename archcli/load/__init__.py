"""The only parser of untrusted input: files, overrides and names of models, to modules.

`archcli.load("llama-3.1-8b")` returns the model; `archcli.load.source.load` also its name, source and places.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archcli.modules import Model


class CallablePackage(ModuleType):
    """A package that can be called.

    A function `archcli.load` would be replaced by this package with the first import from it.
    """

    def __call__(self, *args: Any, **options: Any) -> Model:
        from archcli.modules.arguments import bound

        call = bound(load, args, options)
        return load(*call.args, **call.kwargs)


def load(model: Any, overrides: Sequence[str] = ()) -> Model:
    """The architecture that a path, a preset's name or a mapping stands for; a `Model` stays what it is.

    `overrides` are texts `KEY=VALUE`, as `--set` takes them.
    """
    from archcli.load.source import load_given
    from archcli.modules import Model

    if not isinstance(model, Model):
        return load_given(model, overrides).model
    if not overrides:
        return model
    from archcli.load.yaml.writer import to_mapping

    return load_given(to_mapping(model), overrides).model


sys.modules[__name__].__class__ = CallablePackage
