"""Build transformers' own class for a config.json, on meta; no code of a repository runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from archcli.errors import ArchError
from archcli.wings.running.runtime.own.failures import raised
from archcli.wings.running.runtime.own.source import LargeOnMeta
from archcli.wings.running.runtime.weights.transformers import quiet_transformers, without_loaders

MOST_ON_CPU = 2**31
"""Parameters of a model that is built with values."""


def class_model(data: Mapping[str, Any], run_on: str = "meta") -> nn.Module | None:
    """The model of a config.json; None where transformers has no class for it.

    Without values on meta, else with random ones, not in training. Raises ArchError where it cannot be built.
    """
    config = _config(data)
    made = config and _class(config, data.get("architectures"))
    if made is None:
        return None
    with quiet_transformers():
        model = _built(made, config)
        if run_on == "meta":
            return model.eval()
        count = sum(weight.numel() for weight in model.parameters())
        if count > MOST_ON_CPU:
            what = (
                f"{made.__name__} has {count:,} parameters, and at most {MOST_ON_CPU:,} are built with values"
            )
            raise ArchError(what, "leave --run-on out")
        with seeded():
            return made(config).eval()


@contextmanager
def seeded() -> Iterator[None]:
    """Draw the same numbers in every run, as sizes may hang on values; leave the caller's draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _config(data: Mapping[str, Any]) -> Any:
    """The config as its class reads it; None for a type that transformers does not have."""
    kind = data.get("model_type")
    if kind is None:
        kinds = (_config_class(name) for name in data.get("architectures") or ())
        kind = next((found.model_type for found in kinds if found is not None), None)
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        return None
    try:
        with quiet_transformers():
            return CONFIG_MAPPING[kind].from_dict(without_loaders(data))
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        raise raised(f"the config class of {kind}", error) from None


def _config_class(name: Any) -> Any:
    """The config class of a model's class by its name; None where there is none, or a library is missing."""
    try:
        return getattr(getattr(transformers, str(name)), "config_class", None)
    except Exception:  # noqa: BLE001 - importing a class may fail in any way
        return None


def _class(config: Any, stated: Any) -> Callable[[Any], nn.Module] | None:
    """The class that `architectures` states, else the base class, else the first that takes the config."""
    for name in stated if isinstance(stated, list) else ():
        made = getattr(transformers, str(name), None) if _config_class(name) else None
        if isinstance(made, type) and issubclass(made, nn.Module) and isinstance(config, _config_class(name)):
            return made
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
        raise raised(made.__name__, first) from None
