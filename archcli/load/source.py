"""Resolve MODEL: a path, a preset, a model on the Hugging Face hub, or - for standard input."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from archcli.errors import (
    ArchError,
    NoModelError,
    Problem,
    closest,
    either,
    quote,
    sanitize,
    shorten,
    with_article,
)
from archcli.load.huggingface.config_json import ADAPTER, ConfigJson, is_foreign, read_config
from archcli.load.huggingface.keys import THEIRS_ALONE
from archcli.load.imported import MOST_NAMED, in_folder, load_config, load_gguf, load_hub, load_params
from archcli.load.loaded import Loaded, load_tree
from archcli.load.presets import alike, preset_file, preset_text
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import (
    START,
    STDIN_NAME,
    Text,
    decode,
    may_read,
    opened,
    read_start,
    read_stdin,
    refuse_beyond,
    refuse_huge,
    text_of,
)
from archcli.plugins import optional

if TYPE_CHECKING:
    from archcli.load.foreign.modelfile import Modelfile
    from archcli.load.hub.catalogues import CatalogueName
    from archcli.load.yaml.nodes import Node

STDIN = "-"
GIVEN = "<mapping>"
"""The name of a mapping in messages, where a file has its path."""
WHAT_IS_GIVEN = "give a path, a preset's name, a dict, or a Model"
SUFFIXES = (".yaml", ".yml", ".json", ".gguf")
"""Names that can only be files; anything else may be a preset first."""

# characters of MODEL that a message quotes; a longer text is not asked for as a file
LONGEST_PATH = 400
LEAST_KEYS = 3
"""Fewer keys, none of which is an architecture's, are named one by one."""
ABOUT = {"kind", "name", "source", "released", "series", "sibling_of", "published", "ignore"}
"""Fields of a model that other programs' files have, too."""
PARAMS = {"dim", "n_layers"}
"""Keys that every params.json has."""
CONFIGS = ("config.json", "params.json", "adapter_config.json")
"""Files that stand for the model of their folder; the first that is there is read."""
INDEX_ENDING = ".safetensors.index.json"
NAMED_BY_FOLDER = ("config", "params", "adapter_config", "Modelfile")
"""Files of one name for all models."""
OF_MOST = {"groups", "kind", *THEIRS_ALONE}
"""Keys of nearly every file that is meant for archcli, or for transformers."""
NO_CONFIG = "give a YAML file, or the name of a preset"


def load(model: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The architecture that MODEL names, with `KEY=VALUE` overrides; ArchError with all its problems.

    Unless `strict`, values that contradict each other are no problem but `conflicts` of what is loaded.
    """
    if model == STDIN:
        return load_text(decode(read_stdin(), STDIN_NAME), STDIN_NAME, overrides, strict=strict)
    path = Path(model)
    # a preset's name has no such suffix: a file goes first here, and after presets below
    if model.endswith(SUFFIXES) and _exists(path):
        return _load_path(path, overrides, strict=strict)
    # a preset goes before a folder of its name in the working directory
    if preset_file(model).is_file():
        return load_preset(model, overrides, strict=strict)
    # Path("") is the working directory, which exists
    if model and _exists(path):
        return _load_path(path, overrides, strict=strict)
    from archcli.load.hub.aliases import respelled  # of what is neither a preset's name nor a file

    if preset := respelled(model):
        return load_preset(preset, overrides, strict=strict)
    return _load_named_elsewhere(model, overrides, strict=strict) or _refuse_unknown(model, path)


def _load_named_elsewhere(model: str, overrides: Sequence[str], *, strict: bool) -> Loaded | None:
    """The model that another catalogue or the hub knows by this name; None for neither."""
    # org/name.yaml is a mistyped path rather than a repository, unless hf:// stands before it
    if model.endswith(SUFFIXES) and "://" not in model:
        return None
    from archcli.load.hub.catalogues import of_catalogue  # of names that no preset has
    from archcli.load.hub.module_names import refuse_module

    named = of_catalogue(model)
    if named.model != model:
        return load_catalogued(named, overrides, strict=strict)
    refuse_module(model)
    return load_hub(model, overrides, strict=strict) if "/" in model else None


def load_given(model: Any, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The architecture that a Python caller names, by a text or a path, or gives as a mapping.

    A mapping holds what a YAML or a config.json would. ArchError for anything else. `strict` is as in `load`.
    """
    if isinstance(model, Mapping):
        return load_text(_json(model), GIVEN, overrides, strict=strict)
    if isinstance(model, PathLike):
        model = fspath(model)
    if not isinstance(model, str):
        hint = "give its to_dict()" if hasattr(model, "to_dict") else WHAT_IS_GIVEN
        if hasattr(model, "named_parameters"):
            from archcli.load.hub.module_names import TAKE_MODULES

            hint = TAKE_MODULES
        raise ArchError(f"{with_article(type(model).__name__)} is no architecture", hint)
    if model == STDIN:
        raise ArchError("'-' is standard input, which the command line reads", WHAT_IS_GIVEN)
    return load(model, overrides, strict=strict)


def _json(mapping: Mapping[str, Any]) -> str:
    """A mapping as JSON, a line for each key, so that a message can show the place of a mistake."""
    try:
        # numpy's integers have __index__, by which json can write them
        return json.dumps(dict(mapping), indent=1, default=index)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "give what json.load or yaml.safe_load returns: mappings, lists, texts and numbers"
        raise ArchError(Problem(f"no plain data: {sanitize(str(error))}", hint, path=GIVEN)) from None


def identity(model: str) -> str:
    """A normal form of MODEL, equal for two spellings of one path: `x.yaml` and `./x.yaml`."""
    path = Path(model)
    return str(path.resolve()) if model != STDIN and _exists(path) else model


def load_text(
    text: str, name: str, overrides: Sequence[str] = (), source: str = "", *, strict: bool = True
) -> Loaded:
    """The architecture that a text describes.

    `name` stands in messages, and for the model where it has no name of its own.
    """
    content = text_of(text, name)
    config = read_config(content)
    if config is not None:
        return _load_json(config, Path(name), overrides, strict=strict)
    if "FROM" in content.content[:START].upper():
        from archcli.load.foreign.modelfile import read_modelfile  # of texts that may be one

        if modelfile := read_modelfile(content.content):
            return _load_modelfile(modelfile, Path(name), overrides, strict=strict)
    return _load_yaml(content, overrides, source or name, strict=strict)


def _load_json(config: ConfigJson, path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    """The model of a config.json, a params.json or an adapter_config.json."""
    # a base's config.json that were an adapter's could name itself
    if ADAPTER in config.data and path.name != "config.json":
        from archcli.load.foreign.adapter import is_adapter

        if is_adapter(config.data):
            return _load_adapter(config, path, overrides, strict=strict)
    if PARAMS.issubset(config.data):
        from archcli.load.foreign.params_json import is_params

        if is_params(config.data):
            return load_params(config, _config_name(path), overrides, strict=strict)
    folder = path.parent if _is_file(path) else None
    return load_config(config, _config_name(path), overrides, strict=strict, folder=folder)


def _load_adapter(config: ConfigJson, path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    """The base model of an adapter_config.json, with its adapters."""
    from archcli.load.foreign.adapter import adapted, read_adapter

    adapter = read_adapter(config)
    loaded = adapted(adapter, lambda more: load_named(adapter.base.value, more, strict=strict), overrides)
    return loaded._replace(name=_config_name(path), source=str(path))


def _load_modelfile(file: Modelfile, path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    """The model that the FROM of a Modelfile names: a GGUF file or a folder beside it, or a catalogue's."""
    base = path.parent / file.base
    try:
        if may_read(base) and _is_file(base) and read_start(base, str(base), 4).startswith(b"GGUF"):
            loaded = load_gguf(base, overrides, strict=strict)
        elif may_read(base) and _is_file(base / "config.json"):
            loaded = _load_path(base, overrides, strict=strict)
        else:
            loaded = load_named(file.base, overrides, strict=strict)
    except ArchError as error:
        if any(problem.mark for problem in error.problems):
            raise  # a mistake of an override, or within the model's own file
        first = error.problems[0]
        what = f"FROM {quote(file.base, LONGEST_PATH)}: {first.what}"
        raise NoModelError(Problem(what, first.hint, path=str(path))) from None
    return loaded._replace(notes=(*file.notes, *loaded.notes), source=str(path))


def load_named(name: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The model that a file names: a folder with a config.json, a preset, or a model of the hub.

    Nothing else of this machine is opened: the file may be a stranger's.
    """
    from archcli.load.hub.catalogues import of_catalogue  # of files that name a model

    path = Path(name) / "config.json"
    if path.is_absolute() or name.startswith("."):
        refuse_beyond(path, name)  # before it is looked for: the answer would tell whether it is there
    if len(name) <= LONGEST_PATH and may_read(path) and _is_file(path):
        return _load_path(path, overrides, strict=strict)
    loaded = load_catalogued(of_catalogue(name), overrides, strict=strict)
    if loaded is None:
        close = alike(name)
        hint = f"did you mean {either(close)}?" if close else "`archcli list` names the presets"
        raise NoModelError(f"no preset or model of the hub {quote(name, LONGEST_PATH)}", hint)
    return loaded


def load_catalogued(
    named: CatalogueName, overrides: Sequence[str] = (), *, strict: bool = True
) -> Loaded | None:
    """Load the preset or repository of a catalogue's name, in the name's format; None without either."""
    if preset_file(named.model).is_file():
        loaded: Loaded | None = load_preset(named.model, [*named.changes, *overrides], strict=strict)
    else:
        loaded = load_hub(named.model, overrides, strict=strict)
    return loaded and loaded.by_name(named.note, named.dtype)


def load_preset(name: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The model of a preset."""
    return load_text(preset_text(name), f"{name}.yaml", overrides, f"preset {name}", strict=strict)


def _config_name(path: Path) -> str:
    """The model name for a config.json: its folder's, or the file's own unless all are called so."""
    # the parent of a bare `config.json` has a name only once it is resolved
    return sanitize(path.resolve().parent.name if path.stem in NAMED_BY_FOLDER else path.stem) or "config"


def _load_yaml(content: Text, overrides: Sequence[str], source: str, *, strict: bool) -> Loaded:
    file = content.source.name
    refuse_huge(len(content.content), file)
    if content.content.lstrip().startswith("{"):
        from archcli.load.foreign.others import refuse_json  # of JSON that is no config.json

        refuse_json(content.content, file)
    _refuse_foreign_json(content.content, file)
    document = parse(content)
    root = document.root
    if root is None or (root.value is None and not root.text):
        hint = "an architecture needs vocab_size, d_model, norm and groups"
        raise ArchError([*document.problems, Problem("the file is empty", hint, path=file)])
    if isinstance(root.value, dict) and not document.problems and OF_MOST.isdisjoint(root.value):
        _refuse_foreign_yaml(root, file)
    if isinstance(root.value, dict) and is_foreign(root.value):
        where = root.value[min(THEIRS_ALONE.intersection(root.value))].key
        what = "a config.json of Hugging Face has to be JSON"
        raise ArchError(Problem(what, "this is YAML", where.mark() if where else None, file))
    return load_tree(root, document.problems, source, overrides, strict=strict)


def _refuse_foreign_json(text: str, file: str) -> None:
    """Raise NoModelError for a JSON file, valid or not, that has no key of an architecture."""
    if not (file.endswith(".json") or text.lstrip().startswith('{"')):
        return
    # searched in the text, as a JSON with a syntax error has no keys to look at
    if text.strip() and not any(f'"{word}"' in text for word in _our_keys()):
        hint = "an architecture has vocab_size, d_model, norm and groups, a config.json model_type"
        raise NoModelError(Problem("neither an architecture nor a config.json of a model", hint, path=file))


def _our_keys() -> set[str]:
    """The keys by which a YAML is recognized as an architecture."""
    from archcli.modules.spec.kinds import kinds  # imports every kind of model, which YAML does without

    return {field for model in kinds("model").values() for field in model.fields} - ABOUT


def _refuse_foreign_yaml(root: Node, file: str) -> None:
    """Raise NoModelError for a YAML of another program, or without any key of an architecture."""
    from archcli.load.foreign.others import refuse_yaml

    refuse_yaml(root, file)
    if len(root.value) >= LEAST_KEYS and not _our_keys().intersection(root.value):
        keys = ", ".join(shorten(str(key)) for key in [*root.value][:MOST_NAMED])
        hint = "an architecture has vocab_size, d_model, norm and groups"
        raise NoModelError(Problem(f"no key of an architecture; its keys are {keys}", hint, path=file))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def is_folder(name: str) -> bool:
    """Whether a folder of this name is there; not where the system refuses the name."""
    return _exists(Path(name)) and Path(name).is_dir()


def _is_file(path: Path) -> bool:
    return _exists(path) and path.is_file()


def _load_path(path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    if is_checkpoint(path):
        what = "names and shapes of stored tensors are no architecture"
        raise ArchError(
            Problem(what, "`archcli params` lists them; others need a config.json", path=str(path))
        )
    if path.is_dir():
        if (path / "config.json").is_file():
            loaded = _load_path(path / "config.json", overrides, strict=strict)
            return in_folder(loaded, path) if any(path.glob("*.safetensors")) else loaded
        for name in CONFIGS:
            if (path / name).is_file():
                return _load_path(path / name, overrides, strict=strict)
        hint = f"{NO_CONFIG}; hf://{path} asks the hub" if _may_be_on_hub(str(path)) else NO_CONFIG
        raise ArchError(Problem("this is a folder without a config.json", hint, path=str(path)))
    if path.suffix == ".json" and path.name not in CONFIGS:
        from archcli.load.foreign.others import refuse_beside  # of files of other names

        refuse_beside(path)
    if path.suffix not in SUFFIXES:
        from archcli.load.foreign.others import refuse_by_ending  # of files that are no text of ours

        refuse_by_ending(path)
    # a GGUF file may have hundreds of GB: the start tells its format
    data = read_start(path, str(path))
    if path.suffix == ".gguf" or data.startswith(b"GGUF"):
        return load_gguf(path, overrides, strict=strict)
    with opened(path):
        return load_text(decode(data, str(path)), str(path), overrides, strict=strict)


def is_checkpoint(model: Any) -> bool:
    """Whether MODEL is a .safetensors file, an index of them, or a folder of them that nothing describes."""
    if not isinstance(model, str | PathLike) or not _exists(path := Path(fspath(model))):
        return False
    if not path.is_dir():
        return path.name.endswith((".safetensors", INDEX_ENDING))
    return not any((path / name).is_file() for name in CONFIGS) and any(_listed(path))


def _listed(folder: Path) -> Iterator[Path]:
    """The .safetensors of a folder, and their indexes."""
    yield from folder.glob("*.safetensors")
    yield from folder.glob(f"*{INDEX_ENDING}")


def _refuse_unknown(model: str, path: Path) -> NoReturn:
    """Raise ArchError for an unknown file or preset with the nearest names, without network access."""
    is_file = model.endswith(SUFFIXES)
    near = _neighbours(path) if is_file or path.parent != Path() else []
    close = alike(model) + closest(path.name, near)
    what = f"no {'file' if is_file else 'file or preset'} {quote(model, LONGEST_PATH)}"
    hint = f"did you mean {either(close)}?" if close else "`archcli list` names the presets"
    if not is_file and (is_device := optional("serving.is_device")) and is_device(model):
        hint = f"{quote(model)} is a device: MODEL stands before it"
    raise ArchError(Problem(what, f"{hint}; hf://{model} asks the hub" if _may_be_on_hub(model) else hint))


def _may_be_on_hub(model: str) -> bool:
    """Whether it would be a repository of the hub with `hf://` in front."""
    bare = model.replace("/", "").replace("-", "").replace(".", "")
    return model.count("/") == 1 and not model.endswith(SUFFIXES) and bare.isalnum()


def _neighbours(path: Path) -> list[str]:
    try:
        return [
            entry.name
            for entry in path.parent.iterdir()
            if entry.suffix in SUFFIXES or any((entry / name).is_file() for name in CONFIGS)
        ]
    except (OSError, ValueError):
        return []
