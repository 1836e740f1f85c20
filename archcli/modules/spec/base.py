"""Spec: a frozen class whose fields are its YAML keys.

Module: a Spec with a `forward`, stated once, in ops, on a tape.

`Inline` modules (a norm, an activation) add no level to paths.
`substitute` swaps sizes for symbols or arrays.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from archcli.errors import ArchError, Problem, suggest
from archcli.modules.spec.fields import Field, Inherit, collected
from archcli.modules.spec.request import Forms
from archcli.modules.spec.values import Interval, Refusal

Size = Annotated[int, Interval(gt=0)]
"""A strictly positive whole number; `true`, `4.0` and `"8"` are none."""

Count = Annotated[int, Interval(ge=0)]
"""A whole number, zero allowed."""

Positive = Annotated[float, Interval(gt=0)]
"""A real number above zero; NaN and infinity are refused."""


Share = Annotated[float, Interval(ge=0, lt=1)]
"""A share below 1 of a whole, such as the share that dropout zeroes."""


M = TypeVar("M", bound="Spec")


class Conflict(NamedTuple):
    """Values that contradict each other.

    `code` names the contradiction for programs, `path` the field to change.
    """

    code: str
    path: str
    what: str
    hint: str = ""

    def below(self, path: str) -> Conflict:
        """The conflict with its path prefixed by the parent's."""
        return self._replace(path=f"{path}.{self.path}")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Spec:
    """One mapping of the YAML: a frozen set of annotated fields.

    Two are equal if their classes and all fields are. A Spec that also computes something is a `Module`.
    """

    family: ClassVar[str] = ""
    """Which set of kinds this class belongs to."""
    default_kind: ClassVar[str] = ""
    """Which kind of the family is meant where none is stated."""
    short: ClassVar[str] = ""
    """The key whose value may stand in place of the whole mapping: `kind` where there is a family."""
    forms: ClassVar[Forms | None] = None
    """The equal ways to compute it, one of which is its field `form`; None where there is no such field."""
    apart: ClassVar[frozenset[str]] = frozenset()
    """Fields that hold models of their own, which are no `children`."""
    fields: ClassVar[Mapping[str, Field]] = {}
    """Its fields by name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.fields = collected(cls)
        cls.short = cls.short or ("kind" if cls.family else "")

    def __init__(self, **values: Any) -> None:
        """Validate all values, by type and against each other; ArchError lists every problem."""
        # `check` may rely on types: conflicts are looked for once every value is valid by itself
        problems = list(self._filled(values)) or list(self.conflicts())
        if problems:
            name = type(self).__name__
            raise ArchError(Problem(it.what, it.hint, path=f"{name}.{it.path}") for it in problems)

    def _filled(self, values: Mapping[str, Any]) -> Iterator[Problem]:
        """Set the fields; yields what is missing, unknown or refused by its type."""
        for name in values:
            if name not in self.fields:
                yield Problem(f"unknown key {name}", suggest(name, self.fields, "it has"), path=name)
        for name, field in self.fields.items():
            if name not in values and field.required:
                yield Problem(f"missing key {name}", path=name)
            try:
                # past __setattr__, which refuses: a spec is frozen
                self.__dict__[name] = field.convert(values[name]) if name in values else field.default
            except Refusal as refusal:
                what = f"{name}{refusal.path} {refusal.of_argument()}"
                yield Problem(what, field.advice, path=name + refusal.path)

    def conflicts(self) -> Iterator[Problem]:
        """The conflicts as problems at their paths."""
        yield from (Problem(it.what, it.hint, path=it.path, code=it.code) for it in self.check())

    def check(self) -> Iterator[Conflict]:
        """Conflicts between values that are valid by themselves."""
        yield from ()

    @classmethod
    def unchecked(cls, **values: Any) -> Self:
        """An instance of these values without validation; fields left out have their defaults."""
        # past __init__, whose checks refuse symbols and arrays
        module = cls.__new__(cls)
        module.__dict__.update({name: values.get(name, field.default) for name, field in cls.fields.items()})
        return module

    def replace(self, **changes: Any) -> Self:
        """A copy with new values for some fields, which are not checked."""
        return self.unchecked(**{name: changes.get(name, getattr(self, name)) for name in self.fields})

    def value_of(self, name: str) -> Any:
        """The value of a field or class attribute; None where a kind has no such name."""
        return getattr(self, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another with replace({name}=…)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, value: object) -> bool:
        if type(self) is not type(value):
            return NotImplemented
        return all(getattr(self, name) == getattr(value, name) for name in self.fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.fields)))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"
        )


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
        """What the module computes, as ops on a tape: the only definition of it."""


class Inline(Module):
    """A module whose ops are emitted under the caller's path, with the name it is called with."""

    def __call__(self, *args: Any, name: str, group: str = "", **options: Any) -> Any:
        """Emit among the caller's ops, counted under `group` or this class's own."""
        return args[0].tape.inline(self, group or self.group, *args, name=name, **options)

    @abstractmethod
    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module computes, its op called `name`."""


PLAIN = (str, int, float)
PLAIN_TYPES = frozenset((*PLAIN, bool, NoneType))
"""Types of most fields' values: a set tells them from modules faster than `isinstance` with an ABC."""


def children(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """(path step, child) of every module a spec holds, in the order of its fields.

    Members of tuples are `field.0`, `field.1`, those of mappings `field.name`.
    """
    values = vars(spec)
    for field in spec.fields:
        value = values[field]
        if type(value) in PLAIN_TYPES or field in spec.apart:
            continue
        if isinstance(value, Spec):
            yield field, value
        elif isinstance(value, PLAIN):
            continue
        elif isinstance(value, tuple):
            yield from ((f"{field}.{i}", item) for i, item in enumerate(value) if isinstance(item, Spec))
        elif isinstance(value, Mapping):
            yield from ((f"{field}.{name}", item) for name, item in value.items() if isinstance(item, Spec))


def find(spec: Spec, cls: type[M], path: str = "") -> Iterator[tuple[str, M]]:
    """(full path, module) of every module of a class in an architecture, as `substitute` names them."""
    if isinstance(spec, cls):
        yield path, spec
    for step, child in children(spec):
        yield from find(child, cls, f"{path}.{step}" if path else step)


def settings(spec: Spec, path: str = "") -> Iterator[tuple[str, Any]]:
    """(full path, value) of every field below a spec that is not itself a spec: what YAML could set."""
    for field in spec.fields:
        value = getattr(spec, field)
        if type(value) in PLAIN_TYPES:
            yield path + field, value
            continue
        members = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
        if not isinstance(value, Spec) and not any(isinstance(item, Spec) for item in members):
            yield path + field, value
    for step, child in children(spec):
        yield from settings(child, f"{path}{step}.")


def ends_in(path: str, steps: Sequence[str]) -> bool:
    """Whether a full path ends in these steps; `layer` also matches an entry of a pattern."""
    names = path.split(".")
    named = [
        "layer" if before == "pattern" else step for before, step in zip(["", *names], names, strict=False)
    ]
    return named[-len(steps) :] == [*steps] or names == [*steps]


def full_paths(paths: Iterable[str], steps: Sequence[str]) -> list[str]:
    """At most three paths that pass through these steps in this order, with others between them.

    decoder.n_layers leaves steps of decoder.groups.0.n_layers out. Empty for a single step: `ends_in` finds
    the paths that end in it.
    """
    return [path for path in paths if len(steps) > 1 and _leads_through(path, steps)][:3]


def _leads_through(path: str, steps: Sequence[str]) -> bool:
    # an iterator: each step is looked for behind the one before it
    entries, rest = _entries(".".join(steps)), iter(_entries(path))
    ends = path.endswith(f".{steps[-1]}")
    return ends and all(any(step in {entry, entry.partition(".")[0]} for entry in rest) for step in entries)


def _entries(path: str) -> list[str]:
    """The steps of a path, a list's name and its index as one: groups.0, layer, ffn, d_ff."""
    return re.split(r"\.(?!\d)", path)


def substitute(spec: M, values: Mapping[str, Any]) -> M:
    """The same spec with the values at full paths replaced, unvalidated.

    Symbols and arrays enter a spec by this function alone.
    """
    above = {path[:i] for path in values for i, sign in enumerate(path) if sign == "."}
    return _substituted(spec, values, "", {"", *above})


def _substituted(value: Any, values: Mapping[str, Any], path: str, above: set[str]) -> Any:
    """The value with those below its path replaced; itself unless its path is `above` one of them."""
    # before any test of types: what is replaced may be a whole module
    if path in values:
        return values[path]
    if path not in above:
        return value
    if isinstance(value, tuple):
        return tuple(_substituted(item, values, f"{path}.{i}", above) for i, item in enumerate(value))
    if isinstance(value, Mapping) and any(isinstance(item, Spec) for item in value.values()):
        return {name: _substituted(item, values, f"{path}.{name}", above) for name, item in value.items()}
    if not isinstance(value, Spec):
        return value
    stem = f"{path}." if path else ""
    return type(value).unchecked(
        **{field: _substituted(getattr(value, field), values, stem + field, above) for field in value.fields}
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
    "ends_in",
    "find",
    "settings",
    "substitute",
]
