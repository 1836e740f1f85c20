"""ArchError: problems of bad input, each with a message, a place and a hint."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

SET = "--set"
"""The name of the source that an override on the command line is."""


def install(*packages: str, note: str = "") -> str:
    """The hint for packages that are not installed: `pip install sympy numpy, then: archcli explain gpt2`.

    It names no extra of archcli: whoever has no clone would ask a package index for a name that is another's.
    From Python there is no command to repeat. `note` stands behind the packages.
    """
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
