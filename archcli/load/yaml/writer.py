"""Write plain data as YAML, short mappings on one line. Reading it gives the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from archcli.errors import format_value
from archcli.load.yaml.reader import resolve

WIDTH = 120
"""A mapping or list that fits such a line is written on one."""

INDENT = "  "
# a colon only before a character of a word: `a: b` would be a mapping, and `a:` a key
PLAIN = re.compile(r"[A-Za-z_](?:[\w./+@%=-]|:(?=[\w./]))*", re.ASCII)
"""Text that needs no quotes, unless it reads as something else."""


def mapping_to_yaml(mapping: dict[str, Any]) -> str:
    """Plain data as YAML, short mappings on one line."""
    return "".join(f"{line}\n" for line in _lines(mapping, ""))


def _lines(data: dict[str, Any], indent: str) -> Iterator[str]:
    """The entries of a mapping, one or more lines each."""
    for key, value in data.items():
        flat = f"{indent}{_scalar(key)}: {_flow(value)}"
        # at the top level even a short mapping of mappings is opened: groups, layer
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
        # an empty mapping has no first line to stand behind the dash
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
