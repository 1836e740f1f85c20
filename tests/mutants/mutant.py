"""What a mutant is: one formula broken, and which checks of the suite must go red for it.

The usual ways of breaking one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """`owner.name` replaced by `broken(what it was)`; `suites` must contain a check that then fails."""

    title: str
    owner: Any
    name: str
    broken: Callable[[Any], Any]
    suites: tuple[str, ...]


def constant(value):
    return lambda old: value


def plus(step):
    return lambda old: lambda *args: old(*args) + step


def changed(**fields):
    """A property or method whose spec first has these fields replaced."""
    return lambda old: _like(
        old,
        lambda function: lambda self, *args, **kwargs: function(self.replace(**fields), *args, **kwargs),
    )


def _like(old, wrap):
    return property(wrap(old.fget)) if isinstance(old, property) else wrap(old)


def value(function):
    """A property of that value."""
    return lambda old: property(function)


def result(change):
    """A method, or property, whose result is changed."""
    return lambda old: _like(old, lambda function: lambda *args, **kwargs: change(function(*args, **kwargs)))


def identity(old):
    """A forward that hands its input back."""
    return lambda self, x, *args, **kwargs: x
