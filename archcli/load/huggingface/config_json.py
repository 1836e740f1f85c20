"""Parsing of a config.json to data and the places of its keys."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.keys import THEIRS_ALONE
from archcli.load.huggingface.places import KeyPlaces, object_places
from archcli.load.yaml.nodes import Place
from archcli.load.yaml.text import Text


class ConfigJson(NamedTuple):
    """A config.json: its data as plain dicts and lists, and the places of its keys."""

    data: Any
    places: KeyPlaces


def is_foreign(keys: Collection[str]) -> bool:
    """Whether a mapping with these keys is a Hugging Face config.json."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def read_config(text: Text) -> ConfigJson | None:
    """Parse a text as a config.json; None where it is something else.

    It is read before YAML is tried, whose limits are those of our own files.
    """
    content = text.content
    start = len(content) - len(content.lstrip())
    if not content.startswith("{", start):
        return None
    named = [key for key in ("groups", "kind", *THEIRS_ALONE) if f'"{key}"' in content]
    try:
        data = json.loads(content)
        return ConfigJson(data, object_places(text.source, content, start)) if is_foreign(data) else None
    except (ValueError, RecursionError) as error:
        if is_foreign(named):
            raise _no_json(text, error) from None
        return None


def too_deep(file: str) -> ArchError:
    """The ArchError about a config.json nested too deeply for Python's stack."""
    return ArchError(Problem("nested too deep; no config.json is like that", path=file))


def _no_json(text: Text, error: Exception) -> ArchError:
    """The ArchError about a config.json that is not valid JSON."""
    if isinstance(error, RecursionError):
        return too_deep(text.source.name)
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    what = "a number of thousands of digits; no config.json is like that"
    return ArchError(Problem(what, path=text.source.name))
