"""Comparisons: what a condition asks of numbers, texts, flags and dates."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeAlias

from archcli.query.expression import Expression
from archcli.query.parser import Call
from archcli.query.quotient import compared

Reader: TypeAlias = Callable[[str | Call], Any]
"""Gives the value of a name or call: a number, an array [N] of candidates, a text, a flag, a date or None."""

COMPARES: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class NumberTest(NamedTuple):
    """Two expressions compared: exactly, unless one of them is a real number."""

    left: Expression
    sign: str
    right: Expression

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The names and calls it asks for."""
        return (*self.left.names, *self.left.calls, *self.right.names, *self.right.calls)

    def holds(self, of: Reader) -> Any:
        """Whether it holds: a bool, or an array [N] of them. A missing figure differs from every number."""
        if any(of(what) is None for what in self.reads):
            return self.sign == "!="
        return COMPARES[self.sign](*compared(self.left.exact(of), self.right.exact(of)))


class TextTest(NamedTuple):
    """A text that is, has or is without a word, whatever the case; `~` looks for a part of it."""

    key: str
    sign: str
    bound: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing text has no word."""
        value = of(self.key)
        if value is None:
            return self.sign == "!="
        text = str(value).lower()
        if self.sign == "~":
            return self.bound in text
        return (self.bound in {text, *text.split()}) == (self.sign != "!=")


class FlagTest(NamedTuple):
    """A flag that is true or false."""

    key: str
    sign: str
    bound: bool

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing flag is neither."""
        value = of(self.key)
        return self.sign == "!=" if value is None else (value == self.bound) == (self.sign != "!=")


class DateTest(NamedTuple):
    """A year, or a year and a month, compared: 2024 is any month of it."""

    key: str
    sign: str
    bound: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing date differs from every date."""
        value = of(self.key)
        if value is None:
            return self.sign == "!="
        shared = min(len(str(value)), len(self.bound))
        return bool(COMPARES[self.sign](str(value)[:shared], self.bound[:shared]))


class MissingTest(NamedTuple):
    """A value that is missing, or is there."""

    key: str
    sign: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds."""
        return (of(self.key) is None) == (self.sign != "!=")


Test: TypeAlias = NumberTest | TextTest | FlagTest | DateTest | MissingTest
