"""Write a model as plain data or YAML, without the values that the loader would fill in.

Loading the result gives an equal model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from archcli.errors import as_int, format_value
from archcli.load.spec.fields import USUAL_MODEL, fields
from archcli.load.yaml.reader import resolve
from archcli.modules.spec.base import Spec
from archcli.modules.spec.kinds import kind_of

NOTHING = object()
WIDTH = 120
"""A mapping or list that fits such a line is written on one."""

INDENT = "  "
PLAIN = re.compile(r"[A-Za-z_](?:[\w./+@%=-]|:(?=[\w./]))*", re.ASCII)
"""Text that needs no quotes, unless it reads as something else."""


def to_mapping(model: Spec) -> dict[str, Any]:
    """Nested dicts, lists and scalars, `kind` first; defaults and what layers inherit are left out."""
    return _mapping(model, model)


def to_yaml(model: Spec) -> str:
    """A model as YAML, short mappings on one line."""
    return mapping_to_yaml(to_mapping(model))


def mapping_to_yaml(mapping: dict[str, Any]) -> str:
    """Plain data as YAML, short mappings on one line."""
    return "".join(f"{line}\n" for line in _lines(mapping, ""))


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


def _lines(data: dict[str, Any], indent: str) -> Iterator[str]:
    """The entries of a mapping, one or more lines each."""
    for key, value in data.items():
        flat = f"{indent}{_scalar(key)}: {_flow(value)}"
        nested = isinstance(value, dict | list) and any(isinstance(item, dict) for item in _members(value))
        if (
            not isinstance(value, dict | list)
            or not value
            or (len(flat) <= WIDTH and not (nested and indent == ""))
        ):
            yield flat
        elif isinstance(value, dict):
            yield f"{indent}{_scalar(key)}:"
            yield from _lines(value, indent + INDENT)
        else:
            yield f"{indent}{_scalar(key)}:"
            yield from _entries(value, indent + INDENT)


def _entries(items: list[Any], indent: str) -> Iterator[str]:
    """The entries of a list, each behind a dash."""
    for item in items:
        if isinstance(item, dict) and item and len(indent) + len(_flow(item)) > WIDTH // 2:
            inner = list(_lines(item, indent + INDENT))
            yield f"{indent}- {inner[0].lstrip()}"
            yield from inner[1:]
        else:
            yield f"{indent}- {_flow(item)}"


def _members(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return format_value(value)
    # `null` and `true` are plain words, but would be read back as something else
    bare = PLAIN.fullmatch(value) and isinstance(resolve(value), str)
    return value if bare else json.dumps(value, ensure_ascii=False)
