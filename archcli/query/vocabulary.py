"""Vocabularies: the figures that names of a condition stand for, with their units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from archcli.errors import closest, quote
from archcli.query.expression import Call

PUBLIC = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z\d]\w*)*", re.ASCII)
"""Names without parts that start with an underscore."""
MOST_LISTED = 20
"""More names than these are not listed in a hint."""


class FigureName(NamedTuple):
    """What a name stands for: the key under which its value is looked up, and its unit.

    `text`, `flag` and `date` are no numbers; amounts beside `bytes` are read as bytes; the empty unit is any
    number. The others are those of a report's columns.
    """

    key: str
    unit: str = ""


class Vocabulary:
    """The names of conditions: here every name and call is a number of its own."""

    def find(self, name: str) -> FigureName | None:
        """What a name stands for; None where it is unknown."""
        return FigureName(name) if PUBLIC.fullmatch(name) else None

    def find_call(self, call: Call) -> FigureName | None:
        """What a figure with settings stands for, its unit above all; None where it takes none."""
        return FigureName(call.name)

    def near(self, name: str) -> str:
        """The known name that is nearest to an unknown one; empty where none is near."""
        return ""

    def unknown(self, name: str) -> tuple[str, str]:
        """(problem, hint) of a name that is not known."""
        return f"unknown figure {quote(name)}", ""


class Titled(Protocol):
    """A column of a table: its key, heading and unit."""

    @property
    def key(self) -> str:
        """The name in data."""

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def unit(self) -> str:
        """How values are read and printed."""


class ColumnNames(Vocabulary):
    """The columns of a table, by key or by heading, whatever the case; columns have no settings.

    `otherwise` is the hint for a name unlike any, in place of a long list.
    """

    def __init__(self, columns: Iterable[Titled], otherwise: str = "") -> None:
        columns = list(columns)
        self.keys = [column.key for column in columns]
        self.terms = {
            word.lower(): FigureName(column.key, column.unit)
            for column in columns
            for word in (column.title, column.key)
        }
        self.otherwise = otherwise

    def find(self, name: str) -> FigureName | None:
        return self.terms.get(name.lower())

    def find_call(self, call: Call) -> FigureName | None:
        return None

    def near(self, name: str) -> str:
        return next(iter(closest(name, self.terms)), "")

    def unknown(self, name: str) -> tuple[str, str]:
        near, listed = self.near(name), f"known are {', '.join(self.keys)}"
        listed = listed if len(self.keys) <= MOST_LISTED or not self.otherwise else self.otherwise
        return f"unknown column {quote(name)}", f"did you mean {near}?" if near else listed
