"""The data of a config.json and the places of its keys, from the text of a file."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.places import KeyPlaces, object_places
from archcli.load.huggingface.words import THEIRS_ALONE
from archcli.load.yaml.nodes import Place
from archcli.load.yaml.text import Text


class ConfigJson(NamedTuple):
    """A config.json: its data, as plain dicts and lists, and where its keys stand."""

    data: Any
    places: KeyPlaces


def is_foreign(keys: Collection[str]) -> bool:
    """Whether these are the keys of a config.json of Hugging Face."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def read_config(text: Text) -> ConfigJson | None:
    """The config.json that a text is, or None for another text.

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
    """The user's error about a config.json whose objects and lists exhaust Python's stack."""
    return ArchError(Problem("nested too deep; no config.json is like that", path=file))


def _no_json(text: Text, error: Exception) -> ArchError:
    """The user's error about a config.json that cannot be read."""
    if isinstance(error, RecursionError):
        return too_deep(text.source.name)
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    what = "a number of thousands of digits; no config.json is like that"
    return ArchError(Problem(what, path=text.source.name))
