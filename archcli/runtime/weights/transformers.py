"""Load transformers' class for a config.json, and compute its logits.

No code of a repository is run, nothing is fetched, no pickle is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from archcli.errors import ArchError
from archcli.modules import Model

DECODED = 4  # steps after the prompt; each is one more pass through all layers
MOST_SHOWN = 200


class Inputs(NamedTuple):
    """Random ids [B, T] and what an encoder reads besides them, if there is one."""

    tokens: torch.Tensor
    source: tuple[torch.Tensor, ...]


class Logits(NamedTuple):
    """Logits of one pass over all tokens; `steps` are of a prompt and decoded tokens, None of an encoder."""

    full: torch.Tensor
    steps: torch.Tensor | None


def prompt_length(spec: Model, tokens: torch.Tensor) -> int | None:
    """The tokens before those that are decoded; None for an encoder, and for a single token."""
    length: int = tokens.shape[1]
    return None if not spec.caches or length == 1 else length - min(DECODED, length - 1)


def their_class(config: Mapping[str, Any]) -> Any:
    """The class of transformers that config.json names, or AutoModel; code of the repository is never run."""
    try:
        import transformers
    except ModuleNotFoundError:
        raise ArchError(
            "logits are compared with those of transformers, which is not installed",
            "pip install 'transformers>=5'",
        ) from None
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else "AutoModel"
    cls = getattr(transformers, name, None) if isinstance(name, str) and name.isidentifier() else None
    if cls is transformers.AutoModel or (
        isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)
    ):
        return cls
    raise ArchError(
        f"transformers has no class {str(name)[:MOST_SHOWN]!r} to compare logits with",
        "params --against compares names and shapes",
    )


def their_logits(cls: Any, folder: str, dtype: torch.dtype, spec: Model, inputs: Inputs) -> Logits:
    """Logits of transformers' model, freed afterwards. Raises ArchError where it cannot be loaded."""
    with _quietly():
        model = _model(cls, folder, dtype)
        if spec.caches and getattr(spec, "head", None) is None:
            model = model.base_model  # a head that ours does not have is no part of the comparison
        steps = _steps(
            model, spec, inputs
        )  # first: frequencies that stretch with the length seen do not shrink again
        cached = {"use_cache": False} if spec.caches else {}
        return Logits(_answer(model(**_given(model, inputs, inputs.tokens), **cached), spec), steps)


def _model(cls: Any, folder: str, dtype: torch.dtype) -> Any:
    """transformers' model with all weights from the folder. Raises ArchError where one is missing."""
    options: dict[str, Any] = {
        "dtype": dtype,
        "local_files_only": True,
        "use_safetensors": True,
        "trust_remote_code": False,
    }
    try:
        if getattr(cls, "config_class", None) is not None:
            options["config"] = cls.config_class.from_pretrained(folder, local_files_only=True)
            # Kimi K2 says a type of its own, by which transformers would not know how its experts are stored
            options["config"].model_type = cls.config_class.model_type
        model, told = cls.from_pretrained(folder, output_loading_info=True, **options)
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
        raise ArchError(f"transformers cannot load {folder} as {cls.__name__}: {said[:MOST_SHOWN]}") from None
    lost = sorted(map(str, told["missing_keys"]))
    if lost:
        example = lost[0][:MOST_SHOWN]
        what = f"transformers finds {len(lost)} weights of {cls.__name__} not in {folder}, such as {example}"
        raise ArchError(what, "it would make them up; archcli found every one of its own")
    return model.eval()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without transformers' warnings and progress bars."""
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
    out = model(**_given(model, inputs, tokens[:, :prompt]), use_cache=True)
    steps, name = [_answer(out, spec)[:, -1:]], "decoder_input_ids" if inputs.source else "input_ids"
    memory = {"encoder_outputs": (out.encoder_last_hidden_state,)} if inputs.source else {}
    for i in range(prompt, tokens.shape[1]):
        out = model(
            **{name: tokens[:, i : i + 1]}, past_key_values=out.past_key_values, use_cache=True, **memory
        )
        steps.append(_answer(out, spec))
    return torch.cat(steps, dim=1)


def _given(model: Any, inputs: Inputs, tokens: torch.Tensor) -> dict[str, Any]:
    """The arguments by name; multiple-choice classes take ids [B, 1, T]."""
    if inputs.source:
        return {model.main_input_name: inputs.source[0], "decoder_input_ids": tokens}
    return {"input_ids": tokens[:, None] if type(model).__name__.endswith("ForMultipleChoice") else tokens}


def _answer(out: Any, spec: Model) -> torch.Tensor:
    """The part of transformers' output to compare: logits, else pooled output, else hidden states."""
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], dim=-1)
    keys = (
        "logits",
        "prediction_logits",
        *(("pooler_output",) if getattr(spec, "pooler", False) else ()),
        "last_hidden_state",
    )
    answer: torch.Tensor = next(out[key] for key in keys if key in out)
    return answer
