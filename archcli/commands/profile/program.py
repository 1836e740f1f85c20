"""`archcli profile -- python train.py`: a program of the user's, watched while it runs.

This process checks the options and becomes the program (execve): its output, signals and exit code are its
own. `start/sitecustomize.py`, which Python imports before the program, sets the watch up.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from archcli.api.asking.question import Option
from archcli.api.profiling.program import ProgramOptions
from archcli.api.profiling.program_prediction import check_prediction
from archcli.commands.line.options import asking
from archcli.commands.profile.start.sitecustomize import FOLDER, VARIABLE
from archcli.errors import ArchError, quote
from archcli.render import chosen_format
from archcli.render.write import check_writable, descriptor

SEPARATOR = "--"
"""What stands between the options of archcli and the program."""
PYTHON = re.compile(r"(python|pypy)[\d.]*w?(\.exe)?", re.IGNORECASE)
WITHOUT_SITE = {"E": "ignores PYTHONPATH", "I": "ignores PYTHONPATH", "S": "imports no site"}
"""Python's letters under which nothing is imported before a program."""
TAKES_VALUE = "WXmc"
"""Python's letters whose value may be the next word; after -m and -c come the program's own arguments."""
LAUNCHERS = {
    "torchrun": "torchrun --no-python --nproc-per-node N archcli profile -- python train.py",
    "accelerate": "accelerate launch --no_python archcli profile -- python train.py",
    "deepspeed": "torchrun --no-python --nproc-per-node N archcli profile -- python train.py",
}


FileFormat = Annotated[
    Literal["json", "csv", "md", "plain"] | None,
    Option("Of the file of -o; without it what its suffix says.", name="format"),
]
FileJson = Annotated[bool, Option("Short for --format json; needs -o FILE.", name="json")]
File = Annotated[
    Path | None,
    Option("Write the report to this file, too.", "-o", metavar="FILE", name="output"),
]


def is_program(words: Sequence[str]) -> bool:
    """Whether the words after `profile` name a program: `--`, and what follows it.

    One word there that is no python is a MODEL, which may begin with a dash.
    """
    if SEPARATOR not in words:
        return False
    program = words[words.index(SEPARATOR) + 1 :]
    return len(program) != 1 or _is_python(program[0])


def check_separator(words: Sequence[str]) -> None:
    """Raise ArchError where a python stands among the words without `--` before it."""
    named = [i for i, word in enumerate(words[:-1]) if _is_python(word)]
    if named:
        command = shlex.join(["archcli", *words[: named[0]], SEPARATOR, *words[named[0] :]])
        raise ArchError("a program stands behind `--`, with its own arguments", command)


@asking(ProgramOptions)
def run(
    options: ProgramOptions,
    *,
    form: FileFormat = None,
    as_json: FileJson = False,
    output: File = None,
) -> None:
    """Run a program of yours unchanged, and report where the time of its training steps goes.

    Finds its steps, leaves the first ones out, and traces a few: every kernel is placed at the module that
    ran it, in forward, backward, optimizer or outside. Needs torch in the program's Python.

    The program's output and exit code are its own. The report follows on standard error; -o FILE writes it
    to a file too, as JSON, CSV, Markdown or text by its suffix. Processes that the program starts are not
    watched. On several devices: `torchrun --no-python --nproc-per-node 2 archcli profile -- python train.py`.
    """
    command = _checked(options.program)
    form_of_file = chosen_format(form, output, as_json=as_json)
    if output is None and (form is not None or as_json):
        given = "--json" if as_json else f"--format {form}"
        raise ArchError(
            f"{given} needs a file, as standard output is the program's", "add -o FILE, or leave it out"
        )
    if output is not None and descriptor(output) == 1:
        raise ArchError("standard output is the program's own", "-o FILE names another place")
    check_writable(output)
    check_prediction(options.against_prediction, options.device)
    # the program may go to another folder
    file = None if output is None else str(output.absolute())
    given_options = {"asked": asdict(options), "output": file, "form": form_of_file}
    _become(command, given_options)


def _checked(program: Sequence[str]) -> list[str]:
    """The program's words, with Python's full path. Raises ArchError for what is no Python."""
    if not program:
        raise ArchError("no program follows --", "archcli profile -- python train.py")
    first = program[0]
    if not _is_python(first):
        name = Path(first).name
        hint = LAUNCHERS.get(name) or f"archcli profile -- python {shlex.join(program)}"
        raise ArchError(f"{quote(first)} is no Python, and only a Python program can be watched", hint)
    found = shutil.which(first)
    if found is None:
        raise ArchError(f"there is no program {quote(first)} on this machine", "look at `which python`")
    letter = _without_site(program[1:])
    if letter:
        raise ArchError(
            f"Python {WITHOUT_SITE[letter]} with -{letter}, and so cannot be watched", f"leave -{letter} out"
        )
    return [found, *program[1:]]


def _is_python(word: str) -> bool:
    return PYTHON.fullmatch(Path(word).name) is not None


def _without_site(words: Sequence[str]) -> str:
    """The first of Python's own letters before the program that keeps it from importing anything."""
    skipped = False
    for word in words:
        if skipped:
            skipped = False
            continue
        if not word.startswith("-") or word == "-" or word.startswith("--"):
            return ""
        for i, letter in enumerate(word[1:], 1):
            if letter in WITHOUT_SITE:
                return letter
            if letter in TAKES_VALUE:
                if letter in "mc":
                    return ""
                skipped = i == len(word) - 1
                break
    return ""


def _become(command: list[str], options: Mapping[str, object]) -> None:
    """Run the command in place of this process, with the folder of the start file before all others."""
    before = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [FOLDER, before])),
        VARIABLE: json.dumps({"pythonpath": before, "options": options}),
    }
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":  # where execve leaves the caller's prompt before the program has ended
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)  # noqa: S603
    try:
        os.execve(command[0], command, environment)  # noqa: S606
    except OSError as problem:
        raise ArchError(
            f"{command[0]} cannot be started: {problem.strerror}", "name another Python"
        ) from None
