"""The fields of a Spec, read from its annotations.

An annotation is evaluated when the field is first given a value, so a model without `lora` does not import
adapters.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from archcli.errors import with_article
from archcli.modules.spec.values import (
    Advice,
    Conversion,
    Length,
    Refusal,
    ValueType,
    refused,
    unwrapped,
    value_type,
)
from archcli.plugins import all_present

CONTAINERS: dict[Any, int] = {tuple: 0, Mapping: 1}
"""Containers of specs, with the position of the Spec class among the arguments of the annotation."""

REQUIRED: Any = object()
"""The default of a field that has none."""


class Inherit:
    """Mark of a field that defaults to the model's top-level value of the key `name`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Field:
    """A field of a Spec class, holding a value of `type`, or a `spec` where `type` is None.

    `many` says that it holds a tuple of them, `named` a mapping from names to them.
    """

    def __init__(self, name: str, annotation: Any, module: str, default: Any) -> None:
        self.name, self.annotation, self.module, self.default = name, annotation, module, default

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED

    @cached_property
    def evaluated(self) -> Any:
        """The evaluated annotation."""
        text = self.annotation
        # as locals: of globals, eval would not call __missing__
        return eval(text, {}, _Names(self.module)) if isinstance(text, str) else text  # noqa: S307

    @cached_property
    def inherits(self) -> str:
        """The top-level key whose value the field inherits when left out; empty for none."""
        # the text first: to evaluate an annotation imports the classes it names
        if not str(self.annotation).startswith(("Annotated", "typing.Annotated")):
            return ""
        return next((entry.name for entry in unwrapped(self.evaluated)[1] if isinstance(entry, Inherit)), "")

    @cached_property
    def _parts(self) -> tuple[Any, Any, bool]:
        """(Spec class, container, accepts None) of an annotation; the class is None for a union."""
        hint, _ = unwrapped(self.evaluated)
        nullable = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
        arms = [arg for arg in get_args(hint) if arg is not NoneType] if nullable else [hint]
        if len(arms) > 1:
            return None, None, nullable
        inner, _ = unwrapped(arms[0])
        container = get_origin(inner)
        if container in CONTAINERS:
            inner, _ = unwrapped(get_args(inner)[CONTAINERS[container]])
        return inner, container, nullable

    @property
    def spec(self) -> Any:
        """The Spec class that the field holds, or None."""
        inner = self._parts[0]
        return inner if isinstance(inner, type) and hasattr(inner, "default_kind") else None

    @property
    def many(self) -> bool:
        """Whether the field holds a tuple."""
        # the text alone where it says so: a model without `towers` does not import them
        text = str(self.annotation)
        plain = text.startswith("tuple[") and "|" not in text
        return plain or ("tuple[" in text and self._parts[1] is tuple)

    @property
    def named(self) -> bool:
        """Whether the field holds a mapping from names to specs."""
        return "Mapping[" in str(self.annotation) and self._parts[1] is Mapping and self.spec is not None

    @property
    def nullable(self) -> bool:
        """Whether the field accepts None."""
        return self._parts[2]

    @property
    def least(self) -> int:
        """The least number of entries of a tuple field."""
        return next((entry.least for entry in unwrapped(self.evaluated)[1] if isinstance(entry, Length)), 0)

    @property
    def advice(self) -> str:
        """The hint for a refused value; empty for none."""
        return next((entry.text for entry in unwrapped(self.evaluated)[1] if isinstance(entry, Advice)), "")

    @cached_property
    def type(self) -> ValueType | None:
        """The values it accepts; None of a field that holds specs."""
        return None if self.spec else value_type(self.evaluated)

    def convert(self, value: Any) -> Any:
        """Check and convert a value given in Python; Refusal where the field does not accept it."""
        if self.type is not None:
            return self.type.convert(value)
        if value is None and self.nullable:
            return None
        if self.many and isinstance(value, list | tuple):
            if len(value) < self.least:
                raise Refusal(too_few(self.least))
            return tuple(self._accepted_spec(item) for item in value)
        if self.named and isinstance(value, Mapping):
            return {str(name): self._accepted_spec(item) for name, item in value.items()}
        return self._accepted_spec(value)

    def _accepted_spec(self, value: Any) -> Any:
        """The value if it is of the field's Spec class, else Refusal."""
        if not isinstance(value, self.spec):
            raise refused(value, with_article(self.spec.__name__))
        return value


def too_few(least: int) -> str:
    """The message for a list with too few entries."""
    return "must not be empty" if least == 1 else f"must have at least {least} entries"


class _Names(dict[str, Any]):
    """The namespace of an annotation: its module's names, then those of the packages around it.

    A name that a module imports for type checkers alone is so found in `archcli.modules`, which imports it.
    """

    def __init__(self, module: str) -> None:
        # builtins too: a package is not to be searched for `int`
        super().__init__(vars(builtins) | vars(sys.modules[module]))
        self.module = module

    def __missing__(self, name: str) -> Any:
        package = self.module.rpartition(".")[0]
        while package:
            try:
                return getattr(import_module(package), name)
            except AttributeError:
                package = package.rpartition(".")[0]
        if all_present():
            raise KeyError(name)
        return Annotated[object, Conversion(ABSENT, _absent)]


ABSENT = "left out: a wing of archcli that is not here has it"


def _absent(value: Any) -> Any:
    raise refused(value, ABSENT)


def collected(cls: Any) -> dict[str, Field]:
    """The fields of a class: inherited ones first, its own last.

    A field that it states again keeps its place; one that it states as a constant of the class is none.
    """
    annotations = get_annotations(cls)
    # a text wherever a file imports annotations from __future__
    constants = {name for name, annotation in annotations.items() if "ClassVar" in str(annotation)}
    declared = {
        name: Field(name, annotation, cls.__module__, vars(cls).get(name, REQUIRED))
        for name, annotation in annotations.items()
        if name not in constants
    }
    names = [name for base in cls.__bases__ for name in getattr(base, "fields", {}) if name not in constants]
    return {name: _nearest(cls, name) for name in names} | declared


def _nearest(cls: Any, name: str) -> Field:
    """The field of the first class of the MRO that annotates it."""
    owner = next(base for base in cls.__mro__[1:] if name in get_annotations(base))
    field: Field = owner.fields[name]
    return field
