"""Names of modules of one's own, `pkg.module:function`: told from presets and files, without imports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, either, quote
from archcli.load.presets import VARIANT, alike, preset_file, respelled

HERE = "py:"
"""The prefix by which a name is a module of one's own whatever else it may be, also in this folder."""
_WORDS = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME = re.compile(rf"{_WORDS}:{_WORDS}", re.ASCII)
LONGEST = 200


class ModuleName(NamedTuple):
    """`pkg.module:function`, and whether the working directory is searched for it."""

    name: str
    here: bool


def module_name(model: str) -> ModuleName | None:
    """The module of one's own that MODEL names; None where it names an architecture.

    A file and a preset go first. Raises ArchError beside a preset's name, and for a tag of a catalogue:
    `mistral:latest` may be meant for another program, and to import `mistral` would run it.
    """
    plain = model.removeprefix(HERE)
    if len(model) > LONGEST or not _NAME.fullmatch(plain):
        if model.startswith(HERE):
            raise ArchError(f"{quote(model)} is no name of a module", "py:pkg.module:function is one")
        return None
    if model.startswith(HERE):
        return ModuleName(plain, here=True)
    if Path(model).exists() or preset_file(model).is_file() or respelled(model):
        return None
    near = alike(model)
    if near or VARIANT.fullmatch(model.partition(":")[2]):
        which = f"did you mean the preset {either(near)}? " if near else ""
        hint = f"{which}py:{model} imports a module of yours"
        raise ArchError(f"no preset {quote(model)}, and nothing was imported", hint)
    return ModuleName(model, here=False)


def refuse_module(model: str) -> None:
    """Raise ArchError where MODEL names a module of one's own, for what needs an architecture."""
    if module_name(model) is not None:
        hint = "summary, params, flops, memory, show and profile take modules"
        raise ArchError(f"{quote(model)} names a module of yours, and this needs an architecture", hint)
