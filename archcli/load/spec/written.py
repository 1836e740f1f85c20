"""Write a model as plain data or YAML, without the values that the loader would fill in.

Loading the result gives an equal model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.errors import as_int
from archcli.load.spec.fields import USUAL_MODEL, fields
from archcli.load.yaml.writer import mapping_to_yaml
from archcli.modules.spec.base import Spec
from archcli.modules.spec.kinds import kind_of

NOTHING = object()


def to_mapping(model: Spec) -> dict[str, Any]:
    """Nested dicts, lists and scalars, `kind` first; defaults and what layers inherit are left out."""
    return _mapping(model, model)


def to_yaml(model: Spec) -> str:
    """A model as YAML, short mappings on one line."""
    return mapping_to_yaml(to_mapping(model))


def _mapping(spec: Spec, top: Spec) -> dict[str, Any]:
    kind = kind_of(type(spec))
    # the loader takes a model without `kind` for a decoder, and any other part for its default kind
    usual = USUAL_MODEL if spec is top else spec.default_kind
    entries: dict[str, Any] = {"kind": kind} if kind and kind != usual else {}
    for name, field in fields(type(spec)).items():
        value = getattr(spec, name)
        if field.inherits and spec is not top:
            expected = getattr(top, field.inherits, NOTHING)
        else:
            expected = None if field.required else field.default
        # True == 1 and 1 == 1.0, but the loader would fill in a value of the other type
        if value != expected or type(value) is not type(expected):
            entries[name] = _plain(value, top)
    return entries


def _plain(value: Any, top: Spec) -> Any:
    if isinstance(value, Spec):
        entries = _mapping(value, top)
        return entries["kind"] if set(entries) == {"kind"} else entries
    if isinstance(value, float):
        return as_int(value)
    if isinstance(value, Mapping):
        return {name: _plain(item, top) for name, item in value.items()}
    return [_plain(item, top) for item in value] if isinstance(value, tuple) else value
