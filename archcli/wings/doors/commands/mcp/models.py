"""The architecture of a question: a preset, a text or object in it, or a file of --folder.

Nothing else is read: no other file, no hub, and no Python module is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from archcli.api.asking.subject import Subject, subject_of
from archcli.errors import ArchError, Problem, closest, describe_value, either, quote
from archcli.load.hub.aliases import respelled
from archcli.load.hub.catalogues import preset_meant
from archcli.load.hub.module_names import module_name
from archcli.load.loaded import Loaded
from archcli.load.presets import alike, plain_name, preset_file, presets
from archcli.load.source import load, load_catalogued, load_preset, load_text
from archcli.load.yaml.text import reading_only

INLINE = "model"
"""The name in messages of a model given inside the question."""
MOST_CHARACTERS = 4_000_000
"""Characters of a model in a question; a config.json has some thousands."""
INSTEAD = "give its config.json as an object or as text"
FEWEST_LETTERS = 3
"""Letters of a family's name from which on similar families are suggested."""
MOST_NAMED = 24
"""The most presets in a suggestion."""


class AskedModel(NamedTuple):
    """A model as a question names it, before it is loaded."""

    value: str | Mapping[str, Any]
    folder: Path | None = None

    @property
    def text(self) -> str:
        """The text of a model given inside the question; empty for a named model."""
        if isinstance(self.value, str):
            is_text = "\n" in self.value.strip() or self.value.lstrip().startswith("{")
            return self.value if is_text else ""
        try:
            return json.dumps(self.value, indent=1)
        except RecursionError:
            raise ArchError(Problem("nested too deeply", INSTEAD, path=INLINE)) from None

    def loaded(self, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
        """The architecture. Raises ArchError with what to ask instead."""
        # also for files that the model refers to: the base of an adapter, a link in a folder
        with reading_only(*filter(None, [self.folder])):
            return self._loaded(overrides, strict=strict)

    def _loaded(self, overrides: Sequence[str], *, strict: bool) -> Loaded:
        text = self.text
        length = max(len(text), len(self.value))
        if length > MOST_CHARACTERS:
            what = f"{length:,} characters, and a model has at most {MOST_CHARACTERS:,}"
            raise ArchError(Problem(what, "give the config.json alone", path=INLINE))
        if text:
            return load_text(text, INLINE, overrides, strict=strict)
        name = str(self.value).strip()
        if preset_file(name).is_file():
            return load_preset(name, overrides, strict=strict)
        if self.folder is not None and (path := _inside(self.folder, name)):
            return load(str(path), overrides, strict=strict)
        if preset := respelled(name):
            return load_preset(preset, overrides, strict=strict)
        named = preset_meant(name)
        loaded = named and load_catalogued(named, overrides, strict=strict)
        if loaded is None:
            raise _unknown(name, self.folder)
        return loaded

    def subject(self, overrides: Sequence[str] = ()) -> Subject:
        """The architecture with its source and overrides, for a question."""
        return subject_of(self.loaded(overrides), overrides)

    @property
    def word(self) -> str:
        """MODEL on the command line: a name, or a file to save the text in."""
        text = self.text
        if not text:
            return str(self.value).strip()
        return "config.json" if text.lstrip().startswith("{") else "model.yaml"


def asked_model(name: str, value: Any, folder: Path | None) -> AskedModel:
    """The model of an argument. Raises ArchError for anything but a text or an object."""
    if not isinstance(value, str | Mapping) or not value:
        what = f"{name} must be a name, a text or an object, not {describe_value(value)}"
        raise ArchError(Problem(what, f"a preset such as llama-3.1-8b, or {INSTEAD}"))
    return AskedModel(value, folder)


def _inside(folder: Path, name: str) -> Path | None:
    """The path of a name below `folder`; None without one. Raises ArchError for a path outside."""
    root = folder.resolve()
    try:
        # resolved, so that neither .. nor a link leads out of the folder
        path = (root / name).resolve()
        exists = path.is_relative_to(root) and path.exists()
    except (OSError, ValueError, RuntimeError):  # a name too long, or with a NUL in it; a link to itself
        return None
    if not path.is_relative_to(root):
        raise ArchError(f"{quote(name)} is outside of the folder that archcli mcp reads", INSTEAD)
    # reading a pipe would block
    if exists and not (path.is_file() or path.is_dir()):
        raise ArchError(f"{quote(name)} is neither a file nor a folder", INSTEAD)
    return path if exists and path != root else None


def _unknown(name: str, folder: Path | None) -> ArchError:
    """The error for a name of no preset and no file."""
    what = f"no {'preset' if folder is None else 'preset or file'} {quote(name)}"
    near = alike(name) or closest(name, presets()) or _of_family(name)
    if near:
        return ArchError(what, f"did you mean {either(near)}? Or {INSTEAD}")
    if "/" in name or ":" in name:
        _refuse_module(name)
        reads = "presets and given models" if folder is None else "presets, given models and its folder"
        return ArchError(f"{what}; archcli mcp reads {reads}, not the hub", INSTEAD)
    return ArchError(what, f"{INSTEAD}; the tool fit with a device lists presets")


def _refuse_module(name: str) -> None:
    """Raise ArchError for pkg.module:function: nothing is imported for a question."""
    if module_name(name) is not None:
        what = f"{quote(name)} names a Python module, and archcli mcp imports none"
        raise ArchError(what, "archcli params or summary take it on the command line")


def _of_family(name: str) -> list[str]:
    """Presets of the family that a name begins with, misspelled or not: `lama-9b` finds `llama-…`."""
    family = _letters(name)
    known = {preset: _letters(preset) for preset in presets()}
    near = closest(family, set(known.values()))[:1] if len(family) >= FEWEST_LETTERS else []
    return [preset for preset, of in known.items() if of in near][:MOST_NAMED]


def _letters(name: str) -> str:
    """The first letters of a name in lower case: qwen of Qwen3-8B."""
    return "".join(takewhile(str.isalpha, plain_name(name)))
