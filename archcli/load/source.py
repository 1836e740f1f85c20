"""What MODEL stands for: a path, a preset's name, a model on the Hugging Face hub, or - for standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from archcli.errors import ArchError, Mark, Problem
from archcli.load.huggingface.imported import Origin, config_of, is_foreign
from archcli.load.huggingface.words import THEIRS_ALONE
from archcli.load.spec.build import build
from archcli.load.spec.layers import expand
from archcli.load.yaml.nodes import Node, locate
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import MOST_BYTES, Text, decode, text_of
from archcli.modules import Model
from archcli.wording import clean, closest, either, quoted

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json", ".gguf")
"""Names that can only be files; anything else may be a preset first."""

WORKLOADS = "workloads"
LONGEST_NAME, LONGEST_PATH = 100, 400
NO_CONFIG = "give a YAML file, or the name of a preset"


class Loaded(NamedTuple):
    """A model, its name, the file or preset it came from, and the tree it was built from, which knows the places.

    `notes` say what an import left out or took for granted; `origin` is the file of an imported one, `config` its config.json;
    `misfits` are values that contradict each other, where that was allowed.
    """

    model: Model
    name: str
    source: str
    tree: Node
    notes: tuple[str, ...] = ()
    origin: Origin | None = None
    config: Any = None
    misfits: tuple[Problem, ...] = ()

    def mark(self, path: str) -> Mark:
        """The place of a setting, by its full path; of one that is not written out, the place of what it stands in."""
        mark = locate(self.tree, path).mark()
        return mark if self.origin is None else self.origin.mark(mark, self.tree)


def load(model: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The architecture that MODEL names, with `KEY=VALUE` overrides; ArchError with all problems found.

    Where it is not `strict`, values that contradict each other are no problem but `misfits` of what is loaded.
    """
    if model == STDIN:
        return load_text(
            decode(sys.stdin.buffer.read(MOST_BYTES + 1), "<stdin>"), "<stdin>", overrides, strict=strict
        )
    path = Path(model)
    if model.endswith(SUFFIXES) and _exists(path):
        return _load_path(path, overrides, strict=strict)
    if _preset(model).is_file():
        return load_preset(model, overrides, strict=strict)
    if model and _exists(path):
        return _load_path(path, overrides, strict=strict)
    return _load_hub(model, overrides, strict=strict) or _refuse_unknown(model, path)


def identity(model: str) -> str:
    """What MODEL stands for, the same for two spellings of one path: `x.yaml` and `./x.yaml`."""
    path = Path(model)
    return str(path.resolve()) if model != STDIN and _exists(path) else model


def load_text(
    text: str, name: str, overrides: Sequence[str] = (), source: str = "", *, strict: bool = True
) -> Loaded:
    """The architecture a text describes; `name` stands in messages, and for the model where it has no name of its own."""
    content = text_of(text, name)
    config = config_of(content)
    if config is not None:
        return load_config(config, Origin(name, content), _own_name(Path(name)), overrides, strict=strict)
    return _load_yaml(content, overrides, source or name, strict=strict)


def load_config(
    config: Any,
    origin: Origin,
    name: str,
    overrides: Sequence[str] = (),
    stated: Mapping[str, Any] | None = None,
    *,
    strict: bool = True,
) -> Loaded:
    """The model of a config.json's data, as the YAML it stands for, read like any other; `stated` are keys that go before its own."""
    from archcli.load.huggingface.understand import understand
    from archcli.load.yaml.writer import mapping_to_yaml

    tree, stated = None, stated or {}
    try:
        understood = understand(config, origin.name)
        content = text_of(
            mapping_to_yaml({"name": name, **stated, **understood.mapping, **stated}), origin.as_yaml
        )
        tree = parse(content).root
        loaded = _load_yaml(content, overrides, origin.name, strict=strict)
    except ArchError as error:
        raise ArchError(dict.fromkeys(origin.problem(problem, tree) for problem in error.problems)) from None
    return loaded._replace(notes=(*understood.notes, *loaded.notes), origin=origin, config=config)


def _own_name(path: Path) -> str:
    """What a config.json is called after: its folder, or itself where it has a name of its own."""
    return clean(path.resolve().parent.name if path.stem == "config" else path.stem) or "config"


def _load_yaml(content: Text, overrides: Sequence[str], source: str, *, strict: bool) -> Loaded:
    name, document = content.source.name, parse(content)
    root = document.root
    if root is None or (root.value is None and not root.text):
        problem = Problem(
            "the file is empty", "an architecture needs vocab_size, d_model, norm and groups", path=name
        )
        raise ArchError([*document.problems, problem])
    if isinstance(root.value, dict) and is_foreign(root.value):
        where = root.value[min(THEIRS_ALONE.intersection(root.value))].key
        problem = Problem(
            "a config.json of Hugging Face has to be JSON",
            "this is YAML",
            where.mark() if where else None,
            name,
        )
        raise ArchError(problem)
    tree = _overridden(root, overrides, document.problems) if overrides else expand(root)
    misfits: list[Problem] = []
    notes: list[str] = []
    model = build(tree, document.problems, None if strict else misfits, notes)
    if not isinstance(model, Model):
        raise ArchError(Problem(f"a {type(model).__name__} cannot be counted or checked", path=name))
    return Loaded(
        model,
        model.name or Path(name).stem,
        source,
        tree,
        tuple(notes),
        misfits=tuple(misfits),
    )


def _overridden(root: Node, overrides: Sequence[str], problems: list[Problem]) -> Node:
    from archcli.load.spec.overrides import apply

    return apply(root, overrides, problems)


def presets() -> list[str]:
    """The names of the models that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def workloads() -> list[str]:
    """The names of what papers measured: no models, and so in no list or survey of them, but named and read like presets."""
    return sorted(path.stem for path in (folder() / WORKLOADS).glob("*.yaml"))


def preset_text(name: str) -> str:
    """The YAML of a preset, or of a workload."""
    if not _preset(name).is_file():
        _refuse_unknown(name, Path(name))
    return _preset(name).read_text(encoding="utf-8")


def load_preset(name: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The model of a preset."""
    return load_text(preset_text(name), f"{name}.yaml", overrides, f"preset {name}", strict=strict)


def folder() -> Path:
    """presets/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def _preset(name: str) -> Path:
    """Where a preset or a workload of that name is, or would be: never outside the folder."""
    plain = (
        len(name) <= LONGEST_NAME
        and name.isascii()
        and name.replace("-", "").replace(".", "").replace("_", "").isalnum()
    )
    file = f"{name if plain else ''}.yaml"
    return folder() / WORKLOADS / file if plain and name in workloads() else folder() / file


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _load_path(path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    if path.is_dir():
        if (path / "config.json").is_file():
            return _load_path(path / "config.json", overrides, strict=strict)
        hint = f"{NO_CONFIG}; hf://{path} asks the hub" if _hub_names(str(path)) else NO_CONFIG
        raise ArchError(Problem("this is a folder without a config.json", hint, path=str(path)))
    data = _start(path, str(path))
    if path.suffix == ".gguf" or data.startswith(b"GGUF"):
        return _load_gguf(path, overrides, strict=strict)
    return load_text(decode(data, str(path)), str(path), overrides, strict=strict)


def _start(path: Path, name: str) -> bytes:
    """What a file holds, but not much more than a text may be long."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=name)) from None


def _load_gguf(path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    """The model of a GGUF file: as it stands, held against the tensors that it lists; then with the overrides."""
    from archcli.load.gguf.config import config_of as config_of_gguf
    from archcli.load.gguf.facts import facts_of
    from archcli.load.gguf.tensors import compare, own_name, read_whole

    try:
        header = read_whole(path)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=str(path))) from None
    facts = facts_of(header, str(path))
    config, name = config_of_gguf(facts), clean(own_name(path)) or "model"
    origin = Origin(str(path), None, facts.keys)
    loaded = load_config(config, origin, name, (), facts.arch.stated, strict=strict)
    notes = (*loaded.notes, *facts.notes)
    if header.tensors and not loaded.misfits:
        notes += tuple(
            compare(loaded.model, header, facts.arch, str(path), config.get("num_hidden_layers", sys.maxsize))
        )
    if overrides:
        loaded = load_config(config, origin, name, overrides, facts.arch.stated, strict=strict)
    return loaded._replace(notes=notes)


def _load_hub(model: str, overrides: Sequence[str], *, strict: bool) -> Loaded | None:
    """The model that `hf://org/name` or `org/name` names on the hub; None where MODEL is of neither shape."""
    if "/" not in model or (model.endswith(SUFFIXES) and "://" not in model):
        return None
    from archcli.load.huggingface import hub

    wanted = hub.reference(model)
    if wanted is None:
        return None
    found = hub.find(wanted)
    name = f"{found.reference}/{hub.CONFIG}"
    content = text_of(decode(_start(found.path, name), name), name)
    config = config_of(content)
    if config is None:
        raise ArchError(
            Problem("no config.json of a model", "it has neither model_type nor architectures", path=name)
        )
    loaded = load_config(
        config,
        Origin(name, content),
        found.reference.repo,
        overrides,
        {"source": str(found.reference)},
        strict=strict,
    )
    return loaded._replace(source=str(found.reference), notes=(*loaded.notes, found.note))


def _refuse_unknown(model: str, path: Path) -> NoReturn:
    """No such file or preset: name what comes close, and do not ask the network."""
    near = _neighbours(path) if model.endswith(SUFFIXES) or path.parent != Path() else []
    close = closest(model, [*presets(), *workloads()]) + closest(path.name, near)
    what = (
        f"no file {quoted(model, LONGEST_PATH)}"
        if model.endswith(SUFFIXES)
        else f"no file or preset {quoted(model, LONGEST_PATH)}"
    )
    hint = f"did you mean {either(close)}?" if close else "`archcli list` names the presets"
    raise ArchError(Problem(what, f"{hint}; hf://{model} asks the hub" if _hub_names(model) else hint))


def _hub_names(model: str) -> bool:
    """Whether `hf://` before it would make it a model's name on the hub."""
    return (
        model.count("/") == 1
        and not model.endswith(SUFFIXES)
        and model.replace("/", "").replace("-", "").replace(".", "").isalnum()
    )


def _neighbours(path: Path) -> list[str]:
    try:
        return [
            entry.name
            for entry in path.parent.iterdir()
            if entry.suffix in SUFFIXES or (entry / "config.json").is_file()
        ]
    except (OSError, ValueError):
        return []
