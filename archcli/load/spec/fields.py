"""What the loader needs to know of a class: its fields, which of them are specs of their own, which are inherited."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from archcli.load.spec.validate import Want, want
from archcli.modules import Inherit
from archcli.modules.base import Spec
from archcli.modules.kinds import find, kind_of, kinds

USUAL_MODEL = "decoder"
"""The kind of a model that states none."""


class Field(NamedTuple):
    """One key of a class: either it holds a value that `want` takes, or, where that is None, a `spec` (`many`: a list of them)."""

    name: str
    required: bool
    inherits: str
    spec: type[Spec]
    many: bool
    nullable: bool
    least: int
    want: Want | None


@cache
def fields(cls: type[Spec]) -> Mapping[str, Field]:
    """The fields of a class by name, without `kind`, which has chosen the class already."""
    found = {name: _field(name, cls.model_fields[name]) for name in _in_order(cls) if name != "kind"}
    return dict(sorted(found.items(), key=lambda item: item[1].many))


def _in_order(cls: type[Spec]) -> Mapping[str, None]:
    """The fields as they are read: those of the first base first, of which pydantic makes the last; lists of layers end a mapping."""
    found: dict[str, None] = {}
    for base in cls.__bases__:
        if issubclass(base, Spec):
            found |= _in_order(base)
    return found | dict.fromkeys(cls.model_fields)


def choices(base: type[Spec]) -> Mapping[str, type[Spec]]:
    """The kinds a field annotated with this class may take, the default first. Imports them all: for lists and messages."""
    classes = {
        kind: cls
        for kind, cls in (kinds(base.family) if base.family else {}).items()
        if issubclass(cls, base)
    }
    return {kind: classes[kind] for kind in sorted(classes, key=lambda kind: kind != base.default_kind)}


def chosen(base: type[Spec], kind: str) -> type[Spec] | None:
    """The class of this kind that a field annotated with `base` may take; None where there is none."""
    cls = find(base.family, kind)
    return cls if cls is not None and issubclass(cls, base) else None


def unstated(base: type[Spec]) -> type[Spec] | None:
    """The class of a mapping without a `kind` where `base` is wanted; None where it must state one."""
    if not base.family or kind_of(base):
        return base
    return chosen(base, base.default_kind) if base.default_kind else None


def default(cls: type[Spec], name: str) -> Any:
    """What a field is where it is left out."""
    factory = cls.model_fields[name].default_factory
    if isinstance(factory, type) and issubclass(factory, Spec):
        return _usual(factory)
    return cls.model_fields[name].get_default(call_default_factory=True)


@cache
def _usual(cls: type[Spec]) -> Spec:
    """The class with all defaults, not validated, as these are the class's own words; calling it would build pydantic's schemas."""
    return cls.model_construct(
        **{name: default(cls, name) for name, field in fields(cls).items() if not field.required}
    )


@cache
def has_own_validators(cls: type[Spec]) -> bool:
    """Whether pydantic must validate instances: the class brings validators beside `Spec`'s."""
    found = cls.__pydantic_decorators__
    return bool(
        found.field_validators
        or found.validators
        or found.root_validators
        or set(found.model_validators) - {"_checked"}
    )


def _field(name: str, info: Any) -> Field:
    inherits = next((entry.name for entry in info.metadata if isinstance(entry, Inherit)), "")
    least = max((entry.min_length for entry in info.metadata if hasattr(entry, "min_length")), default=0)
    spec, many, nullable = _spec(info.annotation)
    wanted = None if spec else want(info.annotation, info.metadata)
    return Field(name, info.is_required(), inherits, spec or Spec, many, nullable, least, wanted)


def _spec(annotation: Any) -> tuple[type[Spec] | None, bool, bool]:
    """(the Spec class of an annotation if it is one, whether a tuple of them, whether None will do)."""
    args = get_args(annotation)
    nullable = get_origin(annotation) in (Union, UnionType) and NoneType in args
    arms = [arg for arg in args if arg is not NoneType] if nullable else [annotation]
    if len(arms) != 1:
        return None, False, nullable
    inner = arms[0]
    if get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    many = get_origin(inner) is tuple and get_args(inner)[1:] == (...,)
    inner = get_args(inner)[0] if many else inner
    return (inner if isinstance(inner, type) and issubclass(inner, Spec) else None), many, nullable
