"""Formatting of values, keys and suggestions in messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

SHOWN = 40
"""Characters of a user's text that a message repeats."""

LONGEST_BITS = 4096
"""Whole numbers of more bits are not written out: Python refuses those of some 14,000."""

MOST_NEAR = 3
"""Words that a suggestion names."""

WORTH_MATCHING = 64
"""Longer words are not looked up: nobody misspells a key that long."""


def sanitize(text: str) -> str:
    r"""The text with whatever does not print spelled out: \x1b, \u202e."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def disarm(text: str) -> str:
    r"""The text without commands to a CI runner: `::` at the start of a line, `##[` anywhere.

    Their first sign is spelled out, as \x3a and \x23.
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    if "::" not in text and "##[" not in text:
        return text
    return re.sub(r"^([^\S\n]*):(?=:)", r"\1\\x3a", text, flags=re.MULTILINE).replace("##[", r"\x23#[")


def shorten(text: str, most: int = SHOWN) -> str:
    """The sanitized text, cut to at most `most` characters."""
    return sanitize(text if len(text) <= most else text[: most - 1] + "…")


def quote(text: str, most: int = SHOWN) -> str:
    """A key or kind as messages show it: 'd_fff'."""
    return f"'{shorten(text, most)}'"


def format_value(value: Any) -> str:
    """A plain value as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_value, value)) + "]"
    return str(value)


EXACT = 2.0**53
"""Below it every whole float is the whole number it reads as."""


def as_int(value: float) -> float:
    """Convert a whole number to int if exact; leave any other value."""
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) < EXACT else value


def format_setting(value: Any) -> str:
    """A plain value as people write it in YAML: a whole float without its .0."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_setting, value))}]"
    return format_value(as_int(value) if isinstance(value, float) else value)


def describe_value(value: Any) -> str:
    """A value as messages show it: true, 4096.0, "4096", a list, a mapping."""
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > LONGEST_BITS:
        return f"a number of {value.bit_length():,} bits"
    plain = value is None or isinstance(value, bool | int | float)
    return shorten(format_value(value)) if plain else with_article(type(value).__name__)


def describe_argument(value: Any) -> str:
    """A value of a Python call as messages show it: None, True, nan, "4096", a dict, a tuple."""
    if isinstance(value, dict | list | tuple):
        return with_article(type(value).__name__)
    return repr(value) if value is None or isinstance(value, bool | float) else describe_value(value)


def with_article(noun: str) -> str:
    """The noun with its article, a or an."""
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def closest(word: str, known: Iterable[str]) -> list[str]:
    """The known words nearest to this one, at most three, whatever the case.

    Words that differ in numbers alone come first: llama4 and llama before mllama for llama5.
    """
    if len(word) > WORTH_MATCHING:
        return []
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    if word.lower() in by_lower:
        return [by_lower[word.lower()]]
    near = get_close_matches(word.lower(), by_lower, 2 * MOST_NEAR)
    near.sort(key=lambda name: _letters(name) != _letters(word.lower()))
    return [by_lower[name] for name in near[:MOST_NEAR]]


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name))


def suggest(word: str, known: Iterable[str], otherwise: str = "known are") -> str:
    """A hint: `did you mean …?` with close words, else the list of all known ones."""
    known = list(known)
    close = closest(word, known)
    return f"did you mean {either(close)}?" if close else f"{otherwise} {', '.join(known)}"


def either(words: Iterable[str]) -> str:
    """The words joined as `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
