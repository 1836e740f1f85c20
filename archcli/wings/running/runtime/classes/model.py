"""Build transformers' class for a config.json, on meta; runs no remote code."""

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
"""The most parameters of a model that is built with values."""


def class_model(data: Mapping[str, Any], run_on: str = "meta") -> nn.Module | None:
    """The model of a config.json, in eval mode; None where transformers has no class for it.

    On meta it has no values, else random ones. Raises ArchError where it cannot be built.
    """
    config = _config(data)
    model_class = config and _class(config, data.get("architectures"))
    if model_class is None:
        return None
    with quiet_transformers():
        model = _built(model_class, config)
        if run_on == "meta":
            return model.eval()
        count = sum(weight.numel() for weight in model.parameters())
        if count > MOST_ON_CPU:
            name = model_class.__name__
            what = f"{name} has {count:,} parameters, and at most {MOST_ON_CPU:,} are built with values"
            raise ArchError(what, "leave --run-on out")
        with seeded():
            return model_class(config).eval()


@contextmanager
def seeded() -> Iterator[None]:
    """Seed torch within the block, as shapes may depend on values; keep the caller's random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _config(data: Mapping[str, Any]) -> Any:
    """The config as its class reads it; None for a type that transformers does not have."""
    kind = data.get("model_type")
    if kind is None:
        kinds = (_config_class(name) for name in data.get("architectures") or ())
        kind = next((config_class.model_type for config_class in kinds if config_class is not None), None)
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


def _class(config: Any, names: Any) -> Callable[[Any], nn.Module] | None:
    """The class in `names` (`architectures`), else the base class, else the first that takes the config."""
    for name in names if isinstance(names, list) else ():
        model_class = getattr(transformers, str(name), None) if _config_class(name) else None
        if (
            isinstance(model_class, type)
            and issubclass(model_class, nn.Module)
            and isinstance(config, _config_class(name))
        ):
            return model_class
    base = MODEL_MAPPING_NAMES.get(config.model_type)
    if base is not None:
        return getattr(transformers, base if isinstance(base, str) else base[0])
    return next(_classes(config), None)


def _classes(config: Any) -> Iterator[Callable[[Any], nn.Module]]:
    """Model classes in the package of a config class that take the config."""
    package = type(config).__module__.rpartition(".configuration_")
    module = getattr(transformers.models, package[0].rpartition(".")[2], None)
    for name in dir(module):
        thing = getattr(module, name)
        is_model = inspect.isclass(thing) and issubclass(thing, nn.Module)
        if is_model and isinstance(config, _config_class(name) or ()):
            yield thing


def _built(model_class: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    """The model without values."""
    try:
        with torch.device("meta"):
            return model_class(config)
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        first = error
    # a class may read small tensors while it is built, as `.item()` of a linspace: these get values
    try:
        with LargeOnMeta():
            return model_class(config)
    except Exception:  # noqa: BLE001
        raise raised(model_class.__name__, first) from None
