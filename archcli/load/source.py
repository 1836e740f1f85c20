"""What MODEL stands for: a path, a preset's name, or - for standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from archcli.errors import ArchError, Mark, Problem
from archcli.load.build import build
from archcli.load.hf.words import THEIRS_ALONE
from archcli.load.marks import Node, Place, locate
from archcli.load.shared import expand
from archcli.load.text import MOST_BYTES, Text, decode, text_of
from archcli.load.words import clean, closest, either, quoted
from archcli.load.yaml import parse
from archcli.modules import Module

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json", ".gguf")
"""Names that can only be files; anything else may be a preset first."""

LONGEST_NAME, LONGEST_PATH = 100, 400
NOT_BUILT = "fetching from the Hugging Face hub is not built yet: give the path of a config.json"


class Loaded(NamedTuple):
    """A model, its name, the file or preset it came from, and the tree it was built from, which knows the places.

    `notes` say what an import left out or took for granted.
    """

    model: Module
    name: str
    source: str
    tree: Node
    notes: tuple[str, ...] = ()

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
    content = text_of(text, name)
    config = _config(content)
    if config is not None:
        return _imported(config, name, overrides)
    document = parse(content)
    root = document.root
    if root is None or (root.value is None and not root.text):
        problem = Problem("the file is empty", "an architecture needs vocab_size, d_model, norm and groups", path=name)
        raise ArchError([*document.problems, problem])
    if isinstance(root.value, dict) and _is_foreign(root.value):
        where = root.value[min(THEIRS_ALONE.intersection(root.value))].key
        problem = Problem("a config.json of Hugging Face has to be JSON", "this is YAML", where.mark() if where else None, name)
        raise ArchError(problem)
    tree = _overridden(root, overrides, document.problems) if overrides else expand(root)
    notes: list[str] = []
    model = build(tree, document.problems, notes)
    return Loaded(model, getattr(model, "name", "") or Path(name).stem, source or name, tree, tuple(notes))


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
        if (path / "config.json").is_file():
            return _load_path(path / "config.json", overrides)
        raise ArchError(Problem("this is a folder without a config.json", "give a YAML file, or the name of a preset", path=str(path)))
    if path.suffix == ".gguf":
        raise ArchError(Problem("GGUF files are not read yet", "give a YAML file, or the name of a preset", path=str(path)))
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=str(path))) from None
    return load_text(decode(data, str(path)), str(path), overrides)


def _is_foreign(keys: Collection[str]) -> bool:
    """Whether these are the keys of a config.json of Hugging Face."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def _config(text: Text) -> Any:
    """The data of a config.json, or None for another text. It is read before the YAML, whose limits are those of our own files."""
    if not text.content.lstrip().startswith("{"):
        return None
    named = [key for key in ("groups", "kind", *THEIRS_ALONE) if f'"{key}"' in text.content]
    try:
        data = json.loads(text.content)
    except (ValueError, RecursionError) as error:
        if _is_foreign(named):
            raise _no_json(text, error) from None
        return None
    return data if _is_foreign(data) else None


def _no_json(text: Text, error: Exception) -> ArchError:
    """What is said of a config.json that is none."""
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    what = "nested too deep" if isinstance(error, RecursionError) else "a number of thousands of digits"
    return ArchError(Problem(f"{what}; no config.json is like that", path=text.source.name))


def _imported(data: Any, name: str, overrides: Sequence[str]) -> Loaded:
    """A config.json as the YAML it stands for, read like any other."""
    from archcli.load.dump import mapping_to_yaml
    from archcli.load.hf import understand

    understood = understand(data, name)
    path = Path(name)
    own = clean(path.resolve().parent.name if path.stem == "config" else path.stem)
    loaded = load_text(mapping_to_yaml({"name": own or "config", **understood.mapping}), f"{name} as YAML", overrides, name)
    return loaded._replace(notes=(*understood.notes, *loaded.notes))


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
