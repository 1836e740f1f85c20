"""Import of models from a config.json, a GGUF file, or a repository of the Hugging Face hub."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from archcli.errors import ArchError, Problem, UndescribedError, sanitize, shorten
from archcli.load.huggingface.config_json import ConfigJson, Mapped, read_config, too_deep
from archcli.load.loaded import Loaded, load_tree
from archcli.load.yaml.text import decode, read_start, refuse_hub, text_of

MOST_NAMED = 12
"""Keys that the message about a file without sizes repeats."""


def load_config(
    config: ConfigJson,
    name: str,
    overrides: Sequence[str] = (),
    known: Mapped | None = None,
    *,
    strict: bool = True,
    folder: Path | None = None,
) -> Loaded:
    """The model of a config.json; archcli's own keys, `known`, take precedence over the importer's.

    A file in its `folder` may say how the weights are stored.
    """
    from archcli.load.huggingface.importer import import_config

    places, known = config.places, known or {}
    of_sibling: tuple[str, ...] = ()
    if folder is not None:
        from archcli.load.huggingface.quantization.sibling import with_sibling  # of files alone

        config, of_sibling = with_sibling(config, folder)
    try:
        imported = import_config(config.data, places, {"name": name, **known}, known)
        if not imported.is_sized:
            raise _without_sizes(config)
        loaded = load_tree(imported.tree, [], places.source.name, overrides, strict=strict)
    except ArchError as error:
        # several settings may derive from one key, and then repeat its message; `check` needs the error's own
        # class
        refused = type(error)(dict.fromkeys(map(places.report, error.problems)))
        if isinstance(refused, UndescribedError):
            refused.config = config.data
        raise refused from None
    except RecursionError:
        raise too_deep(places.source.name) from None
    model = loaded.model
    if imported.is_quantized and model.quantization is not None:
        model = model.replace(published_in=model.quantization)
    notes = (*of_sibling, *imported.notes, *loaded.notes)
    return loaded._replace(model=model, notes=notes, config=config.data)


def load_params(file: ConfigJson, name: str, overrides: Sequence[str] = (), *, strict: bool = True) -> Loaded:
    """The model of a params.json, or of one of DeepSeek's inference configs."""
    from archcli.load.foreign.params_json import as_config

    vocab_is_set = any(override.startswith("vocab_size=") for override in overrides)
    converted = as_config(file, vocab_is_set=vocab_is_set)
    loaded = load_config(converted.config, name, overrides, dict(converted.known), strict=strict)
    return loaded._replace(notes=(*converted.notes, *loaded.notes))


def _without_sizes(config: ConfigJson) -> ArchError:
    """The error about a file that leaves every size to the defaults of its class."""
    keys = ", ".join(shorten(str(key)) for key in [*config.data][:MOST_NAMED])
    more = f" and {len(config.data) - MOST_NAMED} more" if len(config.data) > MOST_NAMED else ""
    what = "no size of the model is stated, such as its width or its number of layers"
    return ArchError(Problem(what, f"its keys are {keys}{more}", path=config.places.source.name))


def load_gguf(path: Path, overrides: Sequence[str], *, strict: bool) -> Loaded:
    """The model of a GGUF file; its tensors are checked before overrides are applied."""
    from archcli.load.gguf.arch import header_places
    from archcli.load.gguf.config import config_of
    from archcli.load.gguf.facts import facts_of
    from archcli.load.gguf.header import model_name, read_whole
    from archcli.load.gguf.stored import stored_form
    from archcli.load.gguf.tensors import compare

    try:
        header = read_whole(path)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=str(path))) from None
    facts = facts_of(header, str(path))
    data, name, known = config_of(facts), sanitize(model_name(path)) or "model", dict(facts.arch.over)
    config = ConfigJson(data, header_places(str(path), header.metadata, facts.keys))
    loaded = load_config(config, name, (), known, strict=strict)
    notes, form = (*loaded.notes, *facts.notes), None
    if header.tensors and not loaded.conflicts:
        depth = data.get("num_hidden_layers", sys.maxsize)
        notes += tuple(compare(loaded.model, header, facts.arch, str(path), depth))
        form = stored_form(loaded.model, header, facts.arch)
    if overrides:
        loaded = load_config(config, name, overrides, known, strict=strict)
    return _in_form(loaded._replace(notes=notes), form)


def _in_form(loaded: Loaded, form: Mapped | None) -> Loaded:
    """The model with the form that its file stores it in."""
    if form is None or loaded.conflicts:
        return loaded
    from archcli.modules.stored.quantization import Quantization, Rule  # of files with weights alone

    rules = tuple(Rule(**rule) for rule in form.get("rules", ()))
    stored = Quantization(**{**form, "rules": rules})
    return loaded._replace(model=loaded.model.replace(published_in=stored))


def in_folder(loaded: Loaded, folder: Path) -> Loaded:
    """The model of a folder; without a quantization_config, in the form that its .safetensors have."""
    if loaded.config is None or loaded.model.quantization is not None:
        return loaded
    from archcli.load.checkpoint.checkpoint import read_checkpoint
    from archcli.load.checkpoint.stored import stored_form
    from archcli.load.huggingface.importer import weight_map

    try:
        tensors = read_checkpoint(str(folder)).tensors
        form = stored_form(loaded.model, tensors, weight_map(loaded.config))
    except ArchError as error:
        note = f"the weights beside the config.json were not read: {error.problems[0].what}"
        return loaded._replace(notes=(*loaded.notes, note))
    return _in_form(loaded, form)


def load_hub(model: str, overrides: Sequence[str], *, strict: bool) -> Loaded | None:
    """The hub's model for `hf://org/name` or `org/name`; None where MODEL has neither form."""
    from archcli.load.hub.cache import CONFIG, reference
    from archcli.load.hub.download import find

    wanted = reference(model)
    if wanted is None:
        return None
    refuse_hub(str(wanted))
    cached = find(wanted)
    name, source = f"{cached.reference}/{CONFIG}", str(cached.reference)
    config = read_config(text_of(decode(read_start(cached.path, name), name), name))
    if config is None:
        what = "no config.json of a model"
        raise ArchError(Problem(what, "it has neither model_type nor architectures", path=name))
    loaded = load_config(
        config,
        cached.reference.repo,
        overrides,
        {"source": source},
        strict=strict,
        folder=cached.path.parent,
    )
    return loaded._replace(source=source, notes=(*loaded.notes, cached.note))
