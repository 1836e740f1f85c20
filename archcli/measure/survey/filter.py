"""Conditions on the records of a table, and their order.

`params>10B`, `series=llama`, `pattern~window`, `released>=2024`; `params:desc`. A column is named by its key
or its heading, and its unit says how a value is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.report import Column
from archcli.units import parse_bytes, parse_count

Record = Mapping[str, Any]
COMPARES: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
SIGNS = ("=", "!=", "<", "<=", ">", ">=", "~")
WORDS = ("text", "flag")
"""Units of columns that are not more or less than anything."""
NOTHING, FLAGS = "none", {"true": True, "false": False, "yes": True, "no": False}
ORDERS = {"": False, "asc": False, "desc": True}
CONDITION = re.compile(r"\s*([^<>=!]*?)\s*([<>=!]=|[<>=~])\s*(.*?)\s*")
DATE = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?", re.ASCII)
MOST_LISTED = 20
"""More columns than these are not listed in a hint."""
LONGEST = 40
"""Characters of a user's text that a message repeats."""


class Condition(NamedTuple):
    """A comparison of a column with a value; a missing value equals `none`."""

    column: Column
    sign: str
    bound: Any

    def holds(self, record: Record) -> bool:
        """Whether the record meets the condition."""
        value = record.get(self.column.key)
        if value is None or self.bound is None:
            return (value is self.bound) == (self.sign != "!=")
        if self.sign == "~":
            return self.bound in str(value).lower()
        if self.column.unit == "text":
            matches = self.bound in {str(value).lower(), *str(value).lower().split()}
            return matches == (self.sign != "!=")
        bound = self.bound
        if self.column.unit == "date":  # 2024 is any month of it
            shown, bound = str(value), str(bound)
            length = min(len(shown), len(bound))
            value, bound = shown[:length], bound[:length]
        return COMPARES[self.sign](value, bound)


def select(
    records: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    where: Sequence[str] = (),
    sort: str | None = None,
) -> list[dict[str, Any]]:
    """The records that meet all conditions, in the order of a column if one is named.

    Raises ArchError with everything that is wrong.
    """
    problems: list[Problem] = []
    read = [_condition(text, columns, problems) for text in where]
    conditions = [condition for condition in read if condition is not None]
    order = None if sort is None else _order(sort, columns, problems)
    if problems:
        raise ArchError(problems)
    chosen = [record for record in records if all(condition.holds(record) for condition in conditions)]
    return chosen if order is None else _sorted(chosen, *order)


def _condition(text: str, columns: Sequence[Column], problems: list[Problem]) -> Condition | None:
    path = f"--where {_shortened(text)}"
    parts = CONDITION.fullmatch(text)
    if parts is None or not parts[3] or parts[3][0] in "<>=!~":
        problems.append(
            Problem(
                "not a condition",
                f"write a column, one of {' '.join(SIGNS)} and a value: params>10B",
                path=path,
            )
        )
        return None
    column = _column(parts[1], columns, path, problems)
    if column is None:
        return None
    if (problem := _unfit(parts[2], column)) is not None:
        problems.append(Problem(*problem, path=path))
        return None
    try:
        return Condition(column, parts[2], _value(parts[3], parts[2], column))
    except ArchError as error:
        problems.extend(Problem(problem.what, problem.hint, path=path) for problem in error.problems)
        return None


def comparison_signs(column: Column) -> list[str]:
    """The comparison signs that a condition on this column may have."""
    return [sign for sign in SIGNS if _unfit(sign, column) is None]


def _unfit(sign: str, column: Column) -> tuple[str, str] | None:
    """(problem, hint) where a comparison sign does not fit the column's unit."""
    if column.unit == "text":
        return None if sign in {"=", "==", "!=", "~"} else (f"{column.key} is text", "use =, != or ~")
    if sign == "~":
        return f"{column.key} is no text", f"use one of {' '.join(SIGNS[:-1])}"
    return (
        None
        if column.unit not in WORDS or sign in {"=", "==", "!="}
        else (f"{column.key} is true or false", "use = or !=")
    )


def _value(text: str, sign: str, column: Column) -> Any:
    if text.lower() == NOTHING and sign in {"=", "==", "!="}:
        return None
    if column.unit == "text":
        return text.lower()
    if column.unit == "flag":
        if text.lower() not in FLAGS:
            raise ArchError(f"{text[:LONGEST]!r} is neither true nor false")
        return FLAGS[text.lower()]
    if column.unit in {"share", "ratio", "seconds"}:
        return _decimal(text)
    if column.unit == "date":
        if not DATE.fullmatch(text):
            raise ArchError(
                f"{text[:LONGEST]!r} is not a date",
                "write a year, or a year and a month from 01 to 12: 2024-07",
            )
        return text
    return parse_bytes(text) if column.unit == "bytes" else parse_count(text)


def _decimal(text: str) -> float:
    """A real number, or a share in percent: 0.25 and 25%."""
    number = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)(%|x)?", text, re.ASCII)
    if number is None:
        raise ArchError(f"{text[:LONGEST]!r} is not a number such as 2.5 or 25%")
    return float(number[1]) / (100 if number[2] == "%" else 1)


def _order(text: str, columns: Sequence[Column], problems: list[Problem]) -> tuple[Column, bool] | None:
    path, (name, _, order) = f"--sort {_shortened(text)}", text.partition(":")
    column = _column(name.strip(), columns, path, problems)
    if order not in ORDERS:
        problems.append(
            Problem(
                f"unknown order {_shortened(order)!r}", "write COLUMN:desc for the largest first", path=path
            )
        )
        return None
    return None if column is None else (column, ORDERS[order])


def _column(name: str, columns: Sequence[Column], path: str, problems: list[Problem]) -> Column | None:
    known = {word.lower(): column for column in columns for word in (column.title, column.key)}
    if name.lower() in known:
        return known[name.lower()]
    close = get_close_matches(name.lower(), known, 1) if len(name) <= LONGEST else []
    listed = f"known are {', '.join(column.key for column in columns)}"
    listed = listed if len(columns) <= MOST_LISTED else "`archcli survey -h` lists the columns"
    hint = f"did you mean {close[0]}?" if close else listed
    problems.append(Problem(f"unknown column {_shortened(name)!r}", hint, path=path))
    return None


def column_of(name: str, columns: Sequence[Column], option: str) -> Column:
    """The column of a key or heading; ArchError with the nearest where there is none."""
    problems: list[Problem] = []
    column = _column(name, columns, option, problems)
    if column is None:
        raise ArchError(problems)
    return column


def _sorted(records: list[dict[str, Any]], column: Column, descending: bool) -> list[dict[str, Any]]:
    """The records sorted by the column, those without a value last."""
    stated = [record for record in records if record.get(column.key) is not None]
    rest = [record for record in records if record.get(column.key) is None]
    return sorted(stated, key=lambda record: record[column.key], reverse=descending) + rest


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
