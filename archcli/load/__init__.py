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
    from archcli.modules.models.model import ModelLike


class CallablePackage(ModuleType):
    """A package that can be called.

    A function `archcli.load` would be replaced by this package with the first import from it.
    """

    def __call__(self, *args: Any, **options: Any) -> Model:
        from archcli.modules.spec.calls import bound

        call = bound(load, args, options)
        return load(*call.args, **call.kwargs)


def load(model: ModelLike, overrides: Sequence[str] = ()) -> Model:
    """The architecture that a path, a preset's name or a mapping stands for, its fields checked.

    `overrides` are texts `KEY=VALUE`, as `--set` takes them. A loaded `Model` is returned as it is, or with
    the overrides. Raises ArchError with every mistake, each at its place.

    Example: `load("gpt2", ["d_ff=1024"]).groups[0].layer.ffn.d_ff` is 1024.
    """
    from archcli.load.source import load_given
    from archcli.modules import Model

    if not isinstance(model, Model):
        return load_given(model, overrides).model
    if not overrides:
        return model
    from archcli.load.yaml.writer import to_mapping

    return load_given(to_mapping(model), overrides).model


# Python looks `__call__` up on the type of a module, so a function of that name in it would not do
sys.modules[__name__].__class__ = CallablePackage
