"""A mapping to a model, without the loader: what an importer hands over must make sense on its own."""

from __future__ import annotations

from typing import Any

import archcli.load.huggingface.importer
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import tree_of
from archcli.load.huggingface.registry import family_of
from archcli.load.yaml.nodes import plain
from archcli.modules import Model
from archcli.modules.spec.base import Spec
from archcli.modules.spec.fields import Field
from archcli.modules.spec.kinds import kinds


def imported_file(config: dict[str, Any]) -> Model:
    """The model that a whole config.json stands for, with a head or without as its class has one."""
    return built(plain(archcli.load.huggingface.importer.import_config(config).tree))


def text_alone(model: Model) -> Model:
    """The language model of a whole one, which says nothing of its towers."""
    return model.replace(towers=(), uncounted=())


def imported(model_type: str, config: dict[str, Any]) -> Model:
    """The model that the family of a model_type makes of a config.json."""
    given = Config({"model_type": model_type, **config})
    return built(plain(tree_of(mapped(given), given.places.start)))


def mapped(config: Config) -> dict[str, Any]:
    """The mapping that the family of a config.json makes of it."""
    family = family_of(config.model_type)
    return family.mapping(family.of_class(config))


def built(mapping: dict[str, Any]) -> Model:
    """The model of a mapping."""
    return _spec(kinds("model")[mapping.get("kind", "decoder")], mapping, mapping)


def _spec(cls: type[Spec], given: Any, top: dict[str, Any]) -> Any:
    given = {"kind": given} if isinstance(given, str) else given
    options = (
        {kind: option for kind, option in kinds(cls.family).items() if issubclass(option, cls)}
        if cls.family
        else {}
    )
    cls = options.get(given.get("kind", cls.default_kind), cls)
    unknown = set(given) - {*cls.fields, "kind"}
    assert not unknown, f"{cls.__name__} has no {unknown}"
    values = {}
    for name, field in cls.fields.items():
        if name in given:
            values[name] = _value(field, given[name], top)
        elif field.inherits in top:
            values[name] = _value(field, top[field.inherits], top)
    return cls(**values)


def _value(field: Field, given: Any, top: dict[str, Any]) -> Any:
    if field.spec is None or given is None:
        return given
    if field.named:
        return {name: _spec(field.spec, item, top) for name, item in given.items()}
    return (
        tuple(_spec(field.spec, item, top) for item in given) if field.many else _spec(field.spec, given, top)
    )
