"""Where: records chosen by expressions such as `params>=7B`, and put in order by a column, for every command that lists records."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from archcli.errors import ArchError, Problem

Record = dict[str, Any]

SUFFIXES = {"": 1, "k": 1e3, "K": 1024, "M": 1e6, "B": 1e9, "T": 1e12}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "~": lambda value, part: str(part).lower() in str(value).lower(),
}
EXPRESSION = re.compile(r"\s*(\w+)\s*(==|!=|<=|>=|=|<|>|~)\s*([^\s=<>~].*?)\s*")
NUMBER = re.compile(r"([+-]?\d+(?:_\d+)*(?:\.\d+)?(?:[eE][+-]?\d+)?)([kKMBT]?)", re.ASCII)


def filtered(records: Iterable[Record], expressions: Sequence[str], keys: Collection[str]) -> list[Record]:
    """The records for which every expression holds; ArchError for all expressions that are none."""
    tests: list[Callable[[Record], bool]] = []
    problems: list[Problem] = []
    for text in expressions:
        try:
            tests.append(_parsed(text, keys))
        except ArchError as error:
            problems += error.problems
    if problems:
        raise ArchError(problems)
    return [record for record in records if all(test(record) for test in tests)]


def ordered(records: Iterable[Record], spec: str | None, keys: Collection[str]) -> list[Record]:
    """The records by COL, or largest first by COL:desc; those without a value come last. ArchError for an unknown column."""
    if spec is None:
        return list(records)
    key, _, way = spec.partition(":")
    if way not in {"", "asc", "desc"}:
        raise ArchError(Problem(f"{way[:40]!r} is no order", "COL, COL:asc or COL:desc", path="--sort"))
    known(key, keys, "--sort")
    has: list[Record] = [record for record in records if record.get(key) is not None]
    has_not = [record for record in records if record.get(key) is None]
    return [*sorted(has, key=lambda record: record[key], reverse=way == "desc"), *has_not]


def known(key: str, keys: Collection[str], option: str) -> None:
    """Raise ArchError where no column has this key."""
    if key not in keys:
        from difflib import get_close_matches

        close = get_close_matches(key[:64], keys, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(keys)}"
        raise ArchError(Problem(f"no column {key[:40]!r}", hint, path=option))


def _parsed(text: str, keys: Collection[str]) -> Callable[[Record], bool]:
    found = EXPRESSION.fullmatch(text)
    if found is None:
        raise ArchError(
            Problem(f"{text[:40]!r} is no condition", "COL>=VALUE, with = != < <= > >= or ~ for a part of a text", path="--where")
        )
    key, sign, wanted = found.groups()
    known(key, keys, "--where")
    return lambda record: _holds(record.get(key), sign, wanted)


def _holds(value: Any, sign: str, wanted: str) -> bool:
    """Whether a value meets the condition. Nothing is neither more nor less than anything; it equals none."""
    if value is None or isinstance(value, bool):
        word = {None: "none", True: "true", False: "false"}[value]
        return sign in {"=", "==", "!="} and (word == wanted.lower()) == (sign != "!=")
    number = NUMBER.fullmatch(wanted)
    if isinstance(value, int | float) and number and sign != "~":
        return OPERATORS[sign](value, float(number[1]) * SUFFIXES[number[2]])
    return OPERATORS[sign](str(value).lower(), wanted.lower())
