"""What functions of many options share: checks of arguments, records made of them, degrees of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from archcli.errors import ArchError, quote, suggest
from archcli.measure.memory.plan import Plan
from archcli.modules.spec.arguments import accept, bound
from archcli.modules.spec.values import ValueType, refused

P = ParamSpec("P")
R = TypeVar("R")


def checked(own: Mapping[str, ValueType]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that checks a function's arguments by name; ArchError for a wrong name or value.

    `own` are values that a name accepts in this function, where they are others.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            arguments = bound(function, args, options, own)
            return function(*arguments.args, **arguments.kwargs)

        return call

    return decorate


def record_of(kind: Callable[..., R], options: Mapping[str, Any]) -> R:
    """The record whose fields are the options of their names; the others keep their defaults."""
    return kind(**{name: options[name] for name in signature(kind).parameters if name in options})


def degrees(value: Any) -> Mapping[str, Any]:
    """Degrees of parallelism by name: {"dp": 8, "zero": 3}.

    ArchError for a name that is none, and for a value it cannot have.
    """
    if not isinstance(value, Mapping):
        raise refused(value, "a mapping from names")
    names = Plan().inputs()
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ArchError(f"unknown degree {quote(str(unknown[0]))}", suggest(str(unknown[0]), names))
    return {name: accept(name, degree) for name, degree in value.items()}
