"""A mapping to a model, without the loader: what an importer hands over must make sense on its own."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import archcli.load.huggingface.understand
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.value import tree_of
from archcli.load.yaml.nodes import plain
from archcli.modules import Inherit, Model
from archcli.modules.base import Spec
from archcli.modules.kinds import kinds


@cache
def families() -> dict[str, ModuleType]:
    """The importer of each model_type."""
    return {
        kind: importlib.import_module(f"archcli.load.huggingface.families.{name}")
        for kind, name in archcli.load.huggingface.understand.families().items()
    }


def imported_file(config: dict[str, Any]) -> Model:
    """The model that a whole config.json stands for, with a head or without as its class has one."""
    return built(plain(archcli.load.huggingface.understand.understand(config).tree))


def imported(family: Any, config: dict[str, Any]) -> Model:
    """The model that an importer's `mapping` makes of a config.json."""
    given = Config(config)
    return built(plain(tree_of(family.mapping(given), given.places.start)))


def built(mapped: dict[str, Any]) -> Model:
    """The model of a mapping."""
    return _spec(kinds("model")[mapped.get("kind", "decoder")], mapped, mapped)


def _spec(cls: type[Spec], given: Any, top: dict[str, Any]) -> Any:
    given = {"kind": given} if isinstance(given, str) else given
    options = (
        {kind: option for kind, option in kinds(cls.family).items() if issubclass(option, cls)}
        if cls.family
        else {}
    )
    cls = options.get(given.get("kind", cls.default_kind), cls)
    unknown = set(given) - {*cls.model_fields, "kind"}
    assert not unknown, f"{cls.__name__} has no {unknown}"
    values = {}
    for name, info in cls.model_fields.items():
        above = next((entry.name for entry in info.metadata if isinstance(entry, Inherit)), None)
        if name in given:
            values[name] = _value(info.annotation, given[name], top)
        elif above in top:
            values[name] = _value(info.annotation, top[above], top)
    return cls(**values)


def _value(annotation: Any, given: Any, top: dict[str, Any]) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        arms = [arm for arm in get_args(annotation) if arm is not NoneType]
        annotation = arms[0] if len(arms) == 1 else Any
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    many = get_origin(annotation) is tuple
    inner = get_args(annotation)[0] if many else annotation
    if not (isinstance(inner, type) and issubclass(inner, Spec)) or given is None:
        return tuple(given) if isinstance(given, list) else given
    return tuple(_spec(inner, item, top) for item in given) if many else _spec(inner, given, top)
