"""The YAML's grammar, derived from the classes: a JSON Schema for editors, and rows for people.

The top is a kind of model, by default a decoder. A layer may leave out what it shares with others, so only
the top, its stacks and a group's `n_layers` have required keys here; the loader demands the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from archcli.errors import format_value
from archcli.load.spec.fields import NONE, USUAL_MODEL, choices, fields
from archcli.load.spec.meanings import MEANINGS, SIZES
from archcli.modules import Decoder, DecoderStack, Encoder, EncoderDecoder, EncoderStack, Group
from archcli.modules.spec.base import Spec
from archcli.modules.spec.fields import Field
from archcli.modules.spec.kinds import kind_of, kinds
from archcli.modules.spec.values import Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME = "urn:archcli:schema:architecture"
"""A name and no address: the schema is part of the installed archcli."""

COMPLETE = (Decoder, Encoder, EncoderDecoder, EncoderStack, DecoderStack, Group)
"""Classes that share no defaults, so that the schema can require their required keys."""


def json_schema() -> Json:
    """A JSON Schema of the YAML: what an editor completes and checks."""
    classes = list(_classes())
    definitions = {_name(base): _any_of(base) for base in _bases(classes)}
    definitions |= {cls.__name__: _definition(cls) for cls in classes}
    for cls in _models().values():
        if "groups" in fields(cls):
            definitions[cls.__name__]["properties"]["layer"] = {
                "$ref": "#/$defs/block",
                "description": "What all layers share.",
            }
    return {"$schema": DIALECT, "$id": NAME, "title": "archcli architecture", **_top(), "$defs": definitions}


def _top() -> Json:
    """The definition selected by `kind`, for an editor to offer the keys of that kind alone.

    With `anyOf` it would offer the keys of all, and explain no mistake.
    """
    usual, *others = _models().items()
    chosen: Json = {"$ref": f"#/$defs/{usual[1].__name__}"}
    # the else of each holds the next, so the innermost is made first
    for kind, cls in reversed(others):
        matches = {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
        chosen = {"if": matches, "then": {"$ref": f"#/$defs/{cls.__name__}"}, "else": chosen}
    kind_key = {"enum": list(_models()), "default": USUAL_MODEL, "description": MEANINGS["kind"]}
    return {"type": "object", "properties": {"kind": kind_key}, **chosen}


def _models() -> dict[str, type[Spec]]:
    """The kinds of model, the usual one first."""
    models = kinds("model")
    return {USUAL_MODEL: models[USUAL_MODEL], **models}


def rows() -> Iterator[Json]:
    """Every key of every class: what it takes, its default, what it means."""
    for cls in _classes():
        for name, field in fields(cls).items():
            taken = field.type.phrase if field.type else " | ".join(choices(field.spec)) or "a mapping"
            left_out = "" if field.required else _default(field)
            yield {
                "class": cls.__name__,
                "kind": kind_of(cls),
                "key": name,
                "takes": taken if field.type else f"{_many(field)}{taken}",
                "default": f"the model's {field.inherits}" if field.inherits else left_out,
                "required": field.required and not field.inherits,
                "meaning": meaning(cls, name),
            }


def _many(field: Field) -> str:
    """How several specs of a field are stated; empty for a field of one."""
    return "a list, each " if field.many else "a mapping, each value " if field.named else ""


def meaning(cls: type[Spec], name: str) -> str:
    """What a key means: the sentence of `SIZES`, or of a docstring, of the class or the nearest base."""
    sentences = (sentence for owner in cls.__mro__ for sentence in _of_owner(owner, name))
    return next(sentences, MEANINGS.get(name, ""))


def _of_owner(owner: type, name: str) -> Iterator[str]:
    """What is said of a class's key: by `SIZES`, then by sentences of its docstring that name it."""
    key = f"{owner.__name__}.{name}"
    if key in SIZES:
        yield SIZES[key]
    sentences = _sentences(owner.__dict__.get("__doc__") or "")
    yield from (sentence.rstrip(";") for sentence in sentences if f"`{name}`" in sentence)


def _sentences(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from re.split(r"(?<=[.;])\s+(?=[A-Z`])", " ".join(paragraph.split()))


def _classes() -> Iterator[type[Spec]]:
    """Every class that a YAML can name, each before the classes of its fields."""
    classes: dict[type[Spec], None] = dict.fromkeys(_models().values())
    waiting: list[type[Spec]] = list(classes)
    while waiting:
        cls = waiting.pop(0)
        yield cls
        for field in fields(cls).values():
            held = [] if field.type else list(choices(field.spec).values()) or [field.spec]
            waiting += [inner for inner in held if inner not in classes]
            classes |= dict.fromkeys(held)


def _bases(classes: list[type[Spec]]) -> list[type[Spec]]:
    """The base classes in annotations of fields that accept several kinds."""
    all_fields = [field for cls in classes for field in fields(cls).values()]
    specs = dict.fromkeys(field.spec for field in all_fields if field.type is None)
    return [spec for spec in specs if choices(spec)]


def _name(base: type[Spec]) -> str:
    return base.family if choices(base) else base.__name__


def _any_of(base: type[Spec]) -> Json:
    """The schema of a kind alone or a mapping with its fields; `silu` is short for `{kind: silu}`."""
    named = choices(base)
    return {
        "anyOf": [{"enum": list(named)}, *({"$ref": f"#/$defs/{cls.__name__}"} for cls in named.values())]
    }


def _definition(cls: type[Spec]) -> Json:
    kind = kind_of(cls)
    properties: Json = {"kind": {"const": kind, "description": MEANINGS["kind"]}} if kind else {}
    for name, field in fields(cls).items():
        value = _value(field) if field.type else _reference(field)
        properties[name] = value | {"description": meaning(cls, name)}
    required = [
        name
        for name, field in fields(cls).items()
        if field.required and not field.inherits and cls in COMPLETE
    ]
    text = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    definition: Json = {
        "type": "object",
        "description": text,
        "properties": properties,
        "additionalProperties": False,
    }
    return definition | ({"required": required} if required else {})


def _value(field: Field) -> Json:
    """The schema of a field of plain values, with its default."""
    accepted: Json = field.type.schema if field.type else {}
    return (
        accepted
        if field.required or isinstance(field.default, Mapping)
        else accepted | {"default": field.default}
    )


def _reference(field: Field) -> Json:
    definition: Json = {"$ref": f"#/$defs/{_name(field.spec)}"}
    if field.spec.short and not field.spec.family:
        # the value of one key may stand for the mapping: `quantization: q4_k_m`
        definition = {"anyOf": [{"type": "string"}, definition]}
    if field.many:
        return {"type": "array", "items": definition}
    if field.named:
        return {"type": "object", "additionalProperties": definition}
    return {"anyOf": [definition, {"enum": [None, NONE]}]} if field.nullable else definition


def _default(field: Field) -> str:
    value = field.default
    return (kind_of(type(value)) or "{}") if isinstance(value, Spec) else format_value(value)
