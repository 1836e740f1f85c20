"""Find a user's program on the command line (`profile -- train.py`), and the Python that runs it."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from archcli.errors import ArchError
from archcli.load.yaml.text import read_start

SEPARATOR = "--"
"""What stands between the options of archcli and the program."""
PYTHON = re.compile(r"(python|pypy)[\d.]*w?(\.exe)?", re.IGNORECASE)
MOST_OF_A_LINE = 256
"""Bytes of a script's first line that Linux reads."""


def is_program(arguments: Sequence[str]) -> bool:
    """Whether the arguments after `profile` name a program: `--`, and what follows it.

    One word there that is neither python nor a script is a MODEL, which may begin with a dash.
    """
    if SEPARATOR not in arguments:
        return False
    program = arguments[arguments.index(SEPARATOR) + 1 :]
    return len(program) != 1 or starts_program(program[0]) or bool(python_of_script(program[0]))


def check_separator(arguments: Sequence[str]) -> None:
    """Raise ArchError where a program stands among the arguments without `--` before it."""
    # a last `python` may be a MODEL in a folder of that name
    starts = (i for i, word in enumerate(arguments) if starts_program(word, is_last=i == len(arguments) - 1))
    start = next(starts, None)
    if start is not None:
        command = ["archcli", *arguments[:start], SEPARATOR, *with_python(arguments[start:])]
        raise ArchError("a program stands behind `--`, with its own arguments", shlex.join(command))


def with_python(program: Sequence[str]) -> list[str]:
    """The words of a program, with Python before a script."""
    return ["python", *program] if is_script(program[0]) else [*program]


def starts_program(word: str, *, is_last: bool = False) -> bool:
    """Whether a word may be the first of a program: a script, or Python where more follows."""
    return is_script(word) or (is_python(word) and not is_last)


def is_python(word: str) -> bool:
    """Whether a word names an interpreter of Python."""
    return PYTHON.fullmatch(Path(word).name) is not None


def is_script(word: str) -> bool:
    """Whether a word names a script of Python."""
    return word.endswith(".py") and not word.startswith("-")


def python_of_script(word: str) -> list[str]:
    """The Python that a script names in its first line, with its options; empty for any other file."""
    executable = shutil.which(word)
    if executable is None:
        return []
    start = read_start(Path(executable), executable, MOST_OF_A_LINE)
    line = start.partition(b"\n")[0].decode(errors="replace")
    # `#!/usr/bin/env -S python -u` and `#!/path/python -u`
    args = [word for word in line.removeprefix("#!").split() if word != "-S"]
    args = args[1:] if args and Path(args[0]).name == "env" else args
    return args if line.startswith("#!") and args and is_python(args[0]) else []
