"""Reading a config.json for a search: which keys an importer reads, and what a file is read as."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archcli.errors import ArchError
from archcli.load.huggingface.config import MISSING, Config
from archcli.load.huggingface.config_json import ConfigValue
from archcli.load.huggingface.importer import import_config
from archcli.load.loaded import load_tree
from archcli.modules import Model

Data = dict[str, Any]
"""A config.json."""

MISSING_KEY = re.compile(r"key '(\w+)' is missing")


def read_back(data: Data) -> Model:
    """The model that a config.json is read as. Raises ArchError where it is refused."""
    return load_tree(import_config(data).tree, [], "config.json", (), strict=True).model


def notes_on(data: Data) -> tuple[str, ...]:
    """What reading a config.json has to say of it."""
    return import_config(data).notes


def missing_key(data: Data) -> str:
    """The key without which a file is refused; empty for another reason."""
    try:
        read_back(data)
    except ArchError as error:
        match = MISSING_KEY.search(str(error))
        return match[1] if match else ""
    return ""


def as_text(data: Data) -> str:
    """A file as one text, equal for equal files."""
    return json.dumps(data, sort_keys=True)


@dataclass
class WatchedConfig(Config):
    """A config.json that remembers which keys are read.

    watched: by key, what it takes: bool, int, float, or one of these words.
    objects: those within the file.
    """

    watched: dict[str, set[Any]] = field(default_factory=dict)
    objects: dict[str, WatchedConfig] = field(default_factory=dict)

    def inner(self, key: str, defaults: Mapping[str, Any]) -> Config:
        self.objects[key] = WatchedConfig(**vars(super().inner(key, defaults)))
        return self.objects[key]

    def _watch(self, names: tuple[str, ...], *kinds: Any) -> None:
        for name in self._key_names(names):
            self.watched.setdefault(name, set()).update(kinds)

    def value(self, *names: str, default: Any = MISSING) -> ConfigValue[Any]:
        self._watch(names)
        return super().value(*names, default=default)

    def stated_null(self, name: str) -> bool:
        self._watch((name,))
        return super().stated_null(name)

    def size(self, *names: str, default: Any = MISSING) -> ConfigValue[int]:
        self._watch(names, int)
        return super().size(*names, default=default)

    def number(self, *names: str, default: Any = MISSING) -> ConfigValue[float]:
        self._watch(names, float)
        return super().number(*names, default=default)

    def flag(self, *names: str, default: Any = MISSING) -> ConfigValue[bool]:
        self._watch(names, bool)
        return super().flag(*names, default=default)

    def only(self, name: str, *allowed: Any, default: Any = MISSING) -> None:
        self._watch((name,), *(it for it in allowed if isinstance(it, str)))
        super().only(name, *allowed, default=default)
