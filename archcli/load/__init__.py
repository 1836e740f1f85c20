"""The only parser of untrusted input: files, overrides and names of models, to modules.

`archcli.load("llama-3.1-8b")` returns the model; `archcli.load.source.load` also its name, source and places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archcli.lazy import make_callable

if TYPE_CHECKING:
    from archcli.modules import Model
    from archcli.modules.models.model import ModelLike


def load(model: ModelLike, overrides: Sequence[str] | Mapping[str, bool | int | float | str] = ()) -> Model:
    """The architecture that a path, a preset's name or a mapping stands for, its fields checked.

    `overrides` are texts `KEY=VALUE`, as `--set` takes them, or a mapping such as {"d_ff": 1024}. A loaded
    `Model` is returned as it is, or with the overrides. Raises ArchError with every mistake, each at its
    place.

    Example: `load("gpt2", ["d_ff=1024"]).groups[0].layer.ffn.d_ff` is 1024.
    """
    from archcli.load.source import load_given
    from archcli.modules import Model

    if isinstance(overrides, Mapping):
        from archcli.errors import format_setting

        overrides = [f"{key}={format_setting(value)}" for key, value in overrides.items()]
    if not isinstance(model, Model):
        return load_given(model, overrides).model
    if not overrides:
        return model
    from archcli.load.spec.written import to_mapping

    return load_given(to_mapping(model), overrides).model


def checked_load(*args: Any, **options: Any) -> Model:
    """`load` with each argument checked: what a call of `archcli.load(…)` runs."""
    from archcli.modules.spec.calls import bound

    call = bound(load, args, options)
    return load(*call.args, **call.kwargs)


make_callable(__name__, checked_load)
