"""Logits of transformers' class for a config.json, with weights that archcli has read.

transformers is handed plain settings and tensors, never a folder: no code of a repository runs, nothing is
fetched, no pickle is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any, NamedTuple

import torch

from archcli.errors import ArchError, install
from archcli.modules import Model
from archcli.wings.running.runtime.weights.inputs import DECODED, Inputs

MOST_SHOWN = 200

CLOSED = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "USE_HUB_KERNELS": "0"}
"""Environment in which transformers asks no hub for files or kernels; it is read at the first import."""

LOADER_KEYS = {
    "attn_implementation",
    "experts_implementation",
    "auto_map",
    "quantization_config",
    "compression_config",
    "fusion_config",
    "kernel_config",
    "use_kernels",
    "distributed_config",
    "transformers_weights",
    "configuration_files",
    "name_or_path",
    "use_pretrained_backbone",
}
"""Keys of a config.json by which transformers finds code, kernels or files, as do those with a leading _."""

INFINITE = "__float__"
"""The one key of a mapping that stands for a number that JSON lacks: {"__float__": "Infinity"}."""


class Logits(NamedTuple):
    """Logits of one pass over all tokens, and of a prompt and decoded tokens (None for an encoder)."""

    full: torch.Tensor
    steps: torch.Tensor | None


class TransformersInput(NamedTuple):
    """A checkpoint for transformers: the folder's name, its config.json, its tensors by name."""

    folder: str
    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]


def prompt_length(spec: Model, tokens: torch.Tensor) -> int | None:
    """How many tokens precede the decoded ones; None for an encoder, and for a single token.

    A class that adds a sound to every token decodes none without one: it is compared in one pass.
    """
    length: int = tokens.shape[1]
    if any(tower.added for tower in spec.towers):
        return None
    return None if not spec.caches or length == 1 else length - min(DECODED, length - 1)


def transformers_class(config: Mapping[str, Any]) -> Any:
    """The class of transformers that config.json names, or AutoModel; code of the repository is never run."""
    os.environ.update(CLOSED)
    try:
        import transformers
    except ModuleNotFoundError:
        raise ArchError(
            "logits are compared with those of transformers, which is not installed",
            install("transformers>=5"),
        ) from None
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else "AutoModel"
    cls = getattr(transformers, name, None) if isinstance(name, str) and name.isidentifier() else None
    if cls is transformers.AutoModel:
        # built without memory, as only the class is wanted
        with torch.device("meta"):
            return type(cls.from_config(transformers.AutoConfig.for_model(**without_loaders(config))))
    # the name is a file's: it may be any attribute of transformers, a function too
    if isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel):
        return cls
    raise ArchError(
        f"transformers has no class {str(name)[:MOST_SHOWN]!r} to compare logits with",
        "params --against compares names and shapes",
    )


def without_loaders(value: Any) -> Any:
    """A value of config.json without keys that make transformers load code, kernels or files."""
    if isinstance(value, list | tuple):
        return [without_loaders(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {INFINITE}:
        return float(value[INFINITE])
    return {key: without_loaders(item) for key, item in value.items() if not _is_loader_key(key)}


def _is_loader_key(key: str) -> bool:
    return key in LOADER_KEYS or key.startswith("_")


def transformers_logits(
    cls: Any, job: TransformersInput, dtype: torch.dtype, spec: Model, inputs: Inputs
) -> Logits:
    """Logits of transformers' model, freed afterwards. Raises ArchError where it cannot be loaded."""
    with quiet_transformers():
        model = _model(cls, job, dtype)
        if spec.caches and spec.output_head is None:
            model = model.base_model  # a head that ours does not have is no part of the comparison
        steps = _steps(
            model, spec, inputs
        )  # first: frequencies that stretch with the length seen do not shrink again
        # the forward of an encoder may not know the argument
        cached = {"use_cache": False} if spec.caches else {}
        return Logits(_comparable(model(**_arguments(model, inputs, inputs.tokens), **cached), spec), steps)


def _model(cls: Any, job: TransformersInput, dtype: torch.dtype) -> Any:
    """transformers' model with all its weights. Raises ArchError where one is missing."""
    try:
        model, loading = cls.from_pretrained(
            None,
            config=_config(cls.config_class, without_loaders(job.config)),
            state_dict=dict(job.tensors),
            attn_implementation="eager",
            dtype=dtype,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except (
        OSError,
        ValueError,
        RuntimeError,
        LookupError,
        AttributeError,
        TypeError,
        ImportError,
    ) as problem:
        said = str(problem).strip().partition("\n")[0]
        what = f"transformers cannot load {job.folder} as {cls.__name__}: {said[:MOST_SHOWN]}"
        raise ArchError(what) from None
    # transformers would draw these at random and only warn
    lost = sorted(map(str, loading["missing_keys"]))
    if lost:
        example = lost[0][:MOST_SHOWN]
        what = (
            f"transformers finds {len(lost)} weights of {cls.__name__} not in {job.folder}, such as {example}"
        )
        raise ArchError(what, "it would make them up; archcli found every one of its own")
    return model.eval()


def _config(cls: Any, settings: dict[str, Any]) -> Any:
    """The configuration object of a transformers class, from the settings or the part of its type."""
    parts = [part for part in settings.values() if isinstance(part, dict)]
    if cls.base_config_key in settings:
        settings = settings[cls.base_config_key]
    elif settings.get("model_type") != cls.model_type:
        settings = next((part for part in parts if part.get("model_type") == cls.model_type), settings)
    # Kimi K2 says a type of its own, by which transformers would not know how its experts are stored
    return cls.from_dict({**settings, "model_type": cls.model_type})


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' warnings and progress bars within the block."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _steps(model: Any, spec: Model, inputs: Inputs) -> torch.Tensor | None:
    """Logits of the prompt and of each further token through transformers' cache."""
    tokens, prompt = inputs.tokens, prompt_length(spec, inputs.tokens)
    if prompt is None:
        return None
    out = model(**_arguments(model, inputs, tokens[:, :prompt]), use_cache=True)
    steps, name = [_comparable(out, spec)[:, -1:]], "decoder_input_ids" if inputs.source else "input_ids"
    memory = {"encoder_outputs": _encoded(out.encoder_last_hidden_state)} if inputs.source else {}
    cached = cache_argument(model)
    for i in range(prompt, tokens.shape[1]):
        cache = {cached: getattr(out, cached)}
        out = model(**{name: tokens[:, i : i + 1]}, **cache, use_cache=True, **memory)
        steps.append(_comparable(out, spec))
    return torch.cat(steps, dim=1)


def _encoded(states: torch.Tensor) -> Any:
    """What an encoder has answered, by name and by number: classes read either."""
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(last_hidden_state=states)


def cache_argument(model: Any) -> str:
    """The name of the cache in a forward and its output: past_key_values before transformers 5.24."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _arguments(model: Any, inputs: Inputs, tokens: torch.Tensor) -> dict[str, Any]:
    """Keyword arguments of transformers' forward; multiple-choice classes take ids [B, 1, T]."""
    if inputs.source:
        return {model.main_input_name: inputs.source[0], "decoder_input_ids": tokens}
    if inputs.media and inputs.spec is not None:
        from archcli.wings.running.runtime.weights.media import class_arguments  # of models with towers alone

        return {"input_ids": tokens, **class_arguments(model.config, inputs.spec, inputs.media, tokens)}
    return {"input_ids": tokens[:, None] if type(model).__name__.endswith("ForMultipleChoice") else tokens}


def _comparable(out: Any, spec: Model) -> torch.Tensor:
    """The part of transformers' output to compare: logits, else pooled output, else hidden states."""
    # question answering: our head gives both columns in one tensor
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], dim=-1)
    keys = (
        "logits",
        # of classes with several heads, such as BertForPreTraining
        "prediction_logits",
        *(("pooler_output",) if spec.value_of("pooler") else ()),  # an encoder's
        "last_hidden_state",
    )
    answer: torch.Tensor = next(out[key] for key in keys if key in out)
    return answer
