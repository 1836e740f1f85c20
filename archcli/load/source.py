"""What MODEL stands for: a path, a preset's name, or - for standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from archcli.errors import ArchError, Mark, Problem
from archcli.load.build import build
from archcli.load.hf.words import THEIRS_ALONE
from archcli.load.marks import Node, locate
from archcli.load.shared import expand
from archcli.load.text import MOST_BYTES, decode, text_of
from archcli.load.words import closest, either, quoted
from archcli.load.yaml import parse
from archcli.modules import Module

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json", ".gguf")
"""Names that can only be files; anything else may be a preset first."""

LONGEST_NAME, LONGEST_PATH = 100, 400
NOT_BUILT = "import from Hugging Face is not built yet"


class Loaded(NamedTuple):
    """A model, its name, the file or preset it came from, and the tree it was built from, which knows the places."""

    model: Module
    name: str
    source: str
    tree: Node

    def mark(self, path: str) -> Mark:
        """The place of a setting, by its full path; of one that is not written out, the place of what it stands in."""
        return locate(self.tree, path).mark()


def load(model: str, overrides: Sequence[str] = ()) -> Loaded:
    """The architecture that MODEL names, with `KEY=VALUE` overrides; ArchError with all problems found."""
    if model == STDIN:
        return load_text(decode(sys.stdin.buffer.read(MOST_BYTES + 1), "<stdin>"), "<stdin>", overrides)
    path = Path(model)
    if model.endswith(SUFFIXES) and _exists(path):
        return _load_path(path, overrides)
    if _preset(model).is_file():
        return load_preset(model, overrides)
    if not model or not _exists(path):
        _refuse_unknown(model, path)
    return _load_path(path, overrides)


def load_text(text: str, name: str, overrides: Sequence[str] = (), source: str = "") -> Loaded:
    """The architecture a text describes; `name` stands in messages, and for the model where it has no name of its own."""
    document = parse(text_of(text, name))
    root = document.root
    if root is None or (root.value is None and not root.text):
        problem = Problem("the file is empty", "an architecture needs vocab_size, d_model, norm and groups", path=name)
        raise ArchError([*document.problems, problem])
    _refuse_foreign(root, name)
    tree = _overridden(root, overrides, document.problems) if overrides else expand(root)
    model = build(tree, document.problems)
    return Loaded(model, getattr(model, "name", "") or Path(name).stem, source or name, tree)


def _overridden(root: Node, overrides: Sequence[str], problems: list[Problem]) -> Node:
    from archcli.load.overrides import apply

    return apply(root, overrides, problems)


def presets() -> list[str]:
    """The names of the models that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def preset_text(name: str) -> str:
    """The YAML of a preset."""
    if not _preset(name).is_file():
        _refuse_unknown(name, Path(name))
    return _preset(name).read_text(encoding="utf-8")


def load_preset(name: str, overrides: Sequence[str] = ()) -> Loaded:
    """The model of a preset."""
    return load_text(preset_text(name), f"{name}.yaml", overrides, f"preset {name}")


def _folder() -> Path:
    """presets/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def _preset(name: str) -> Path:
    """Where a preset of that name is, or would be: never outside the folder."""
    plain = len(name) <= LONGEST_NAME and name.isascii() and name.replace("-", "").replace(".", "").replace("_", "").isalnum()
    return _folder() / f"{name if plain else ''}.yaml"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _load_path(path: Path, overrides: Sequence[str]) -> Loaded:
    if path.is_dir():
        what = NOT_BUILT if (path / "config.json").is_file() else "this is a folder"
        raise ArchError(Problem(what, "give a YAML file, or the name of a preset", path=str(path)))
    if path.suffix == ".gguf":
        raise ArchError(Problem("GGUF files are not read yet", "give a YAML file, or the name of a preset", path=str(path)))
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=str(path))) from None
    return load_text(decode(data, str(path)), str(path), overrides)


def _refuse_foreign(root: Node, name: str) -> None:
    if isinstance(root.value, dict) and "groups" not in root.value and (theirs := THEIRS_ALONE.intersection(root.value)):
        where = root.value[min(theirs)].key
        raise ArchError(Problem(f"a config.json of Hugging Face; {NOT_BUILT}", "", where.mark() if where else None, name))


def _refuse_unknown(model: str, path: Path) -> NoReturn:
    """No such file or preset: name what comes close, and do not ask the network."""
    near = _neighbours(path) if model.endswith(SUFFIXES) or path.parent != Path() else []
    close = closest(model, presets()) + closest(path.name, near)
    what = f"no file {quoted(model, LONGEST_PATH)}" if model.endswith(SUFFIXES) else f"no file or preset {quoted(model, LONGEST_PATH)}"
    if model.startswith("hf://") or ("/" in model and not path.parent.is_dir()):
        raise ArchError(Problem(what, NOT_BUILT))
    raise ArchError(Problem(what, f"did you mean {either(close)}?" if close else "`archcli list` names the presets"))


def _neighbours(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir() if entry.suffix in SUFFIXES]
    except (OSError, ValueError):
        return []
