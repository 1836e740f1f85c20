"""ArchError: problems of bad input, each with a message, a place and a hint; the wording of messages."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
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
    # actions/runner trims a line before it looks for ::, and finds ##[ anywhere (ActionCommand.cs)
    if "::" not in text and "##[" not in text:
        return text
    return re.sub(r"^([^\S\n]*):(?=:)", r"\1\\x3a", text, flags=re.MULTILINE).replace("##[", r"\x23#[")


def shorten(text: str, most: int = SHOWN) -> str:
    """The sanitized text, cut to at most `most` characters."""
    # the text is cut first too: it may be a whole file
    shown = sanitize(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def quote(text: str, most: int = SHOWN) -> str:
    """A key or kind as messages show it: 'd_fff'."""
    return f"'{shorten(text, most)}'"


def format_value(value: Any) -> str:
    """A plain value as YAML writes it."""
    # before numbers, as a bool is an int; YAML writes null and true, str() None and True
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
"""2^53: floats below it hold every whole number exactly."""


def as_int(value: float) -> float:
    """Convert a whole number to int if exact; leave any other value."""
    # isfinite first: int() raises for nan and inf
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
    # twice as many as are named, for the sort to choose from
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


def either(options: Iterable[str]) -> str:
    """The words joined as `a, b or c`."""
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last


SET = "--set"
"""The name of the source that an override on the command line is."""


def install(*packages: str, note: str = "") -> str:
    """The hint for packages that are not installed: `pip install sympy numpy, then: archcli explain gpt2`.

    It names no extra of archcli: whoever has no clone would ask a package index for a name that is another's.
    From Python there is no command to repeat. `note` stands behind the packages.
    """
    # imported here: only an error needs them
    import shlex
    from pathlib import PurePath

    wanted = f"pip install {shlex.join(packages)}{note}"
    program = PurePath(*sys.argv[:1])
    starts = program.stem == "archcli" or program.parts[-2:] == ("archcli", "__main__.py")
    return f"{wanted}, then: {shlex.join(['archcli', *sys.argv[1:]])}" if starts else wanted


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text file: line and column count from 1.

    `text` is the whole line, `width` how many columns the caret spans.
    """

    file: str
    line: int
    column: int
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the input: message, hint and place.

    The place is a mark in a file, or a path such as `groups.0.layer.ffn.d_ff`. `code` names the kind of a
    conflict between values, such as kv-heads-divide-heads, so that programs need not read the English.
    """

    what: str
    hint: str = ""
    mark: Mark | None = None
    path: str = ""
    code: str = ""

    def __str__(self) -> str:
        where = str(self.mark) if self.mark else self.path
        return (f"{where}: " if where else "") + self.what + (f"; {self.hint}" if self.hint else "")


class ArchError(Exception):
    """Bad input, with all its problems. The command line prints it and exits with code 2."""

    def __init__(self, problems: str | Problem | Iterable[Problem], hint: str = "") -> None:
        if isinstance(problems, str):
            problems = Problem(problems, hint)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NoModelError(ArchError):
    """A file of another program, or a model of a family that archcli does not know."""


class UndescribedError(NoModelError):
    """A config.json of a type that archcli does not describe; `config` is what it holds."""

    config: Mapping[str, Any] = MappingProxyType({})


class UnknownFormError(ArchError):
    """Raised where the bytes of weights are asked for, and their form is one of unknown bytes."""

    def __init__(self, form: str) -> None:
        super().__init__(f"weights are stored as {form}, whose bytes are not known", STATE_ONE)
        self.form = form


STATE_ONE = "--dtype states a form: --dtype bf16, fp8 or q4_k_m"
