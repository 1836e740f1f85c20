"""Build transformers' own class for a config.json, on meta; no code of a repository runs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from archcli.errors import ArchError, sanitize
from archcli.runtime.own.source import LargeOnMeta

MOST_ON_CPU = 2**31
"""Parameters of a model that is built with values."""


def class_model(data: Mapping[str, Any], run_on: str = "meta") -> nn.Module | None:
    """The model of a config.json; None where transformers has no class for it.

    Without values on meta, else with random ones. Raises ArchError where the class cannot be built.
    """
    config = _config(data)
    made = config and _class(config, data.get("architectures"))
    if made is None:
        return None
    with _quiet():
        model = _built(made, config)
        if run_on == "meta":
            return model
        count = sum(weight.numel() for weight in model.parameters())
        if count > MOST_ON_CPU:
            what = (
                f"{made.__name__} has {count:,} parameters, and at most {MOST_ON_CPU:,} are built with values"
            )
            raise ArchError(what, "leave --run-on out")
        torch.manual_seed(0)  # where sizes hang on values, two runs count the same
        return made(config)


def _config(data: Mapping[str, Any]) -> Any:
    """The config as its class reads it; None for a type that transformers does not have."""
    kind = data.get("model_type")
    if kind is None:
        kinds = (_config_class(name) for name in data.get("architectures") or ())
        kind = next((found.model_type for found in kinds if found is not None), None)
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        return None
    # code of the repository, and forms of stored weights, are not of the class
    plain = {key: value for key, value in data.items() if key not in {"auto_map", "quantization_config"}}
    try:
        with _quiet():
            return CONFIG_MAPPING[kind].from_dict(plain)
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        raise _refused(f"the config of {kind}", error) from None


def _config_class(name: Any) -> Any:
    return getattr(getattr(transformers, str(name), None), "config_class", None)


def _class(config: Any, stated: Any) -> Callable[[Any], nn.Module] | None:
    """The class that `architectures` states, else the base class, else the first that takes the config."""
    for name in stated if isinstance(stated, list) else ():
        if isinstance(_config_class(name), type) and isinstance(config, _config_class(name)):
            return getattr(transformers, name)
    base = MODEL_MAPPING_NAMES.get(config.model_type)
    if base is not None:
        return getattr(transformers, base if isinstance(base, str) else base[0])
    return next(_classes(config), None)


def _classes(config: Any) -> Iterator[Callable[[Any], nn.Module]]:
    """The classes of models beside a config's own that take it."""
    package = type(config).__module__.rpartition(".configuration_")
    module = getattr(transformers.models, package[0].rpartition(".")[2], None)
    for name in dir(module):
        thing = getattr(module, name)
        is_model = inspect.isclass(thing) and issubclass(thing, nn.Module)
        if is_model and isinstance(config, _config_class(name) or ()):
            yield thing


def _built(made: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """The model without values; small tensors have theirs where the class reads them while it is built."""
    try:
        with torch.device("meta"):
            return made(config)
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        first = error
    try:
        with LargeOnMeta():
            return made(config)
    except Exception:  # noqa: BLE001
        raise _refused(made.__name__, first) from None


def _refused(what: str, error: Exception) -> ArchError:
    lines = [line for line in str(error).splitlines() if line.strip()] or ["no message"]
    said = sanitize(lines[0].strip())
    return ArchError(f"transformers cannot build {what}: {type(error).__name__}: {said}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what transformers and torch warn of while a model is built."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)
