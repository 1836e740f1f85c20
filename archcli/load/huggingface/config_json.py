"""Parsing of a config.json to data and the places of its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.keys import OUR_WORD, THEIRS_ALONE
from archcli.load.huggingface.places import KeyPlaces, object_places
from archcli.load.yaml.nodes import Place
from archcli.load.yaml.text import Text
from archcli.wording import quote

TOKENS = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*")(?:\s*:)?|[{}]')
"""Strings, keys with their colon, and the brackets of objects."""


class ConfigJson(NamedTuple):
    """A config.json: its data as plain dicts and lists, and the places of its keys."""

    data: Any
    places: KeyPlaces


def is_foreign(keys: Collection[str]) -> bool:
    """Whether a mapping with these keys is a Hugging Face config.json."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def _is_config(keys: Collection[str]) -> bool:
    """Whether a JSON object with these keys is a config.json; the earliest ones have no model_type."""
    is_ours = {"groups", "kind"}.intersection(keys)
    return not is_ours and bool({*THEIRS_ALONE, *OUR_WORD}.intersection(keys))


def read_config(text: Text) -> ConfigJson | None:
    """Parse a text as a config.json; None where it is something else.

    It is read before YAML is tried, whose limits are those of our own files.
    """
    content = text.content
    start = len(content) - len(content.lstrip())
    if not content.startswith("{", start):
        return None
    try:
        data = json.loads(content, object_pairs_hook=_refuse_repeated_keys)
        return ConfigJson(data, object_places(text.source, content, start)) if _is_config(data) else None
    except (ValueError, RecursionError) as error:
        words = ("groups", "kind", *THEIRS_ALONE, *OUR_WORD)
        if _is_config([key for key in words if f'"{key}"' in content]):
            raise _no_json(text, error) from None
        return None


class _RepeatedKeyError(ValueError):
    """An object of a JSON text states a key twice."""


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _RepeatedKeyError
    return mapping


def _repeated(text: Text) -> Problem:
    """The problem of the first key that its object states twice."""
    objects: list[set[str]] = []
    for match in TOKENS.finditer(text.content):
        part = match[0]
        if part == "{":
            objects.append(set())
        elif part == "}":
            objects.pop()
        elif part.endswith(":"):
            key = json.loads(match["key"])
            if key in objects[-1]:
                line = text.content.count("\n", 0, match.start())
                column = match.start() - text.content.rfind("\n", 0, match.start()) - 1
                mark = Place(text.source, line, column, len(match["key"])).mark()
                return Problem(f"key {quote(key)} is stated twice", "leave one of the two out", mark)
            objects[-1].add(key)
    raise AssertionError("no key is stated twice")


def too_deep(file: str) -> ArchError:
    """The ArchError about a config.json nested too deeply for Python's stack."""
    return ArchError(Problem("nested too deep; no config.json is like that", path=file))


def _no_json(text: Text, error: Exception) -> ArchError:
    """The ArchError about a config.json that is not valid JSON."""
    if isinstance(error, RecursionError):
        return too_deep(text.source.name)
    if isinstance(error, _RepeatedKeyError):
        return ArchError(_repeated(text))
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    what = "a number of thousands of digits; no config.json is like that"
    return ArchError(Problem(what, path=text.source.name))
