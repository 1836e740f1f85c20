"""Spec: a frozen pydantic model whose fields are its YAML keys.

Module: a Spec with a `forward`, stated once, in ops, on a tape.

`Inline` modules (a norm, an activation) add no level to paths. `substitute` swaps sizes for symbols or arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from archcli.errors import ArchError, Problem

Size = Annotated[int, Field(gt=0)]
"""A strictly positive whole number; `true`, `4.0` and `"8"` are none."""

Count = Annotated[int, Field(ge=0)]
"""A whole number, zero allowed."""

Positive = Annotated[float, Field(gt=0)]
"""A real number above zero; NaN and infinity are refused."""


Share = Annotated[float, Field(ge=0, lt=1)]
"""A part of a whole, but never all of it: how much is dropped."""


M = TypeVar("M", bound="Spec")


class Inherit:
    """Marks a field that, where a layer leaves it out, takes the model's top-level value of the key `name`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Spec(BaseModel):
    """One mapping of the YAML: a frozen set of fields, registered under its `kind`.

    What also computes something is a `Module`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    family: ClassVar[str] = ""
    """Which set of kinds this class belongs to."""
    default_kind: ClassVar[str] = ""
    """Which kind of the family is meant where none is stated."""

    def check(self) -> Iterator[tuple[str, str, str]]:
        """(field, what is wrong, how to mend it) for every value that is fine alone but not beside the others.

        The field is a full path, `groups.0.layer.attention.n_heads`, where it lies further down.
        """
        yield from ()

    @model_validator(mode="after")
    def _checked(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("checks_later"):
            problems = [
                Problem(what, hint, path=f"{type(self).__name__}.{field}")
                for field, what, hint in self.check()
            ]
            if problems:
                raise ArchError(problems)
        return self


class Module(Spec):
    """One node of an architecture.

    Subclasses state fields, equation, source and `forward`; nothing else decides what they cost.
    """

    group: ClassVar[str] = ""
    """The heading under which the parameters are reported; empty means the caller's."""

    def __call__(self, *args: Any, name: str, **options: Any) -> Any:
        """Run this module as a child called `name` on the tape of its first input."""
        return args[0].tape.call(self, name, *args, **options)

    @abstractmethod
    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module computes, stated once."""


class Inline(Module):
    """A module whose ops are emitted under the caller's path, with the name it is called with."""

    def __call__(self, *args: Any, name: str, group: str = "", **options: Any) -> Any:
        """Emit among the caller's ops, counted under `group` or this class's own."""
        return args[0].tape.inline(self, group or self.group, *args, name=name, **options)

    @abstractmethod
    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module computes, its op called `name`."""


def children(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """(path step, child) of every module a spec holds, in the order of its fields; members of tuples as `field.0`, `field.1`."""
    for field in type(spec).model_fields:
        value = getattr(spec, field)
        if isinstance(value, Spec):
            yield field, value
        elif isinstance(value, tuple):
            yield from ((f"{field}.{i}", item) for i, item in enumerate(value) if isinstance(item, Spec))


def settings(spec: Spec, path: str = "") -> Iterator[tuple[str, Any]]:
    """(full path, value) of every field below a spec that is not itself a spec: what YAML could set."""
    for field in type(spec).model_fields:
        value = getattr(spec, field)
        if not isinstance(value, Spec) and not (
            isinstance(value, tuple) and any(isinstance(item, Spec) for item in value)
        ):
            yield path + field, value
    for step, child in children(spec):
        yield from settings(child, f"{path}{step}.")


def substitute(spec: M, values: Mapping[str, Any]) -> M:
    """The same spec with the values at the given full paths replaced, unvalidated: the one door by which symbols and arrays enter."""
    return _substituted(spec, values, "")


def _substituted(value: Any, values: Mapping[str, Any], path: str) -> Any:
    if path in values:
        return values[path]
    if isinstance(value, tuple):
        return tuple(_substituted(item, values, f"{path}.{i}") for i, item in enumerate(value))
    if not isinstance(value, Spec):
        return value
    stem = f"{path}." if path else ""
    return type(value).model_construct(
        **{
            field: _substituted(getattr(value, field), values, stem + field)
            for field in type(value).model_fields
        }
    )


__all__ = [
    "Count",
    "Inherit",
    "Inline",
    "Module",
    "Positive",
    "Share",
    "Size",
    "Spec",
    "children",
    "settings",
    "substitute",
]
