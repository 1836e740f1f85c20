"""Tell the name of a user's module, `pkg.module:function`, from the name of a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, either, quote
from archcli.load.hub.aliases import respelled
from archcli.load.hub.catalogues import preset_meant
from archcli.load.presets import VARIANT, alike, preset_file, presets

HERE = "py:"
"""The prefix by which a name is a module of one's own whatever else it may be, also in this folder."""
_WORDS = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME = re.compile(rf"{_WORDS}:{_WORDS}")
# characters of pkg.module:function; a longer text is a path
LONGEST_MODULE = 200
VERSION = "0123456789."
"""What a series adds to its name: llama3.1."""
VERSION = "0123456789."
"""What a series adds to its name: llama3.1."""
TAKE_MODULES = "summary, params, flops, memory, show and profile take modules"


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
    _refuse_python_file(model, plain)
    if len(model) > LONGEST_MODULE or not _NAME.fullmatch(plain):
        if model.startswith(HERE):
            package, _, name = plain.rpartition(".")
            meant = f"{package}:{name}" if ":" not in plain and package else ""
            hint = f"did you mean py:{meant}?" if _NAME.fullmatch(meant) else "py:pkg.module:function is one"
            raise ArchError(f"{quote(model)} is no name of a module", hint)
        return None
    if model.startswith(HERE):
        return ModuleName(plain, here=True)
    if Path(model).exists() or preset_file(model).is_file() or respelled(model) or _is_preset(model):
        return None
    if _is_of_catalogue(model):
        near = alike(model)
        what = f"no file or preset {quote(model)}, and no module was imported (py:{model} would be)"
        raise ArchError(what, f"did you mean {either(near)}?" if near else "`archcli list` names the presets")
    return ModuleName(model, here=False)


def _is_preset(model: str) -> bool:
    """Whether a name of another catalogue stands for a preset: mistral:latest."""
    # catalogues have no name with packages in it: torch.nn:Transformer is not transformer-base
    return "." not in model and preset_meant(model) is not None


def _is_of_catalogue(model: str) -> bool:
    """Whether a name looks like a tag of a catalogue: it begins as presets do, or ends as tags do.

    mistral:lates and solar:latest are such names; transformers:GPT2Model is none.
    """
    first, _, last = model.partition(":")
    series = {preset.partition("-")[0].rstrip(VERSION) for preset in presets()}
    return "." not in model and (first.rstrip(VERSION) in series or bool(VARIANT.fullmatch(last)))


def _refuse_python_file(model: str, plain: str) -> None:
    """Raise ArchError for a file of Python, with or without a name in it: nets.py:make."""
    file, _, name = plain.partition(":")
    if not file.endswith(".py"):
        return
    path = Path(file).with_suffix("")
    outside = path.is_absolute() or ".." in path.parts
    module = path.name if outside else ".".join(path.parts)
    hint = f"py:{module}:{name or 'function'} is one" + (", in its folder" if outside else "")
    raise ArchError(f"{quote(model)} is a Python file: name a function in it", hint)


def refuse_module(model: str) -> None:
    """Raise ArchError where MODEL names a module of one's own, for what needs an architecture."""
    if module_name(model) is not None:
        what = f"{quote(model)} names a module of yours, and this needs an architecture"
        raise ArchError(what, f"{TAKE_MODULES}; in Python give the module itself")
