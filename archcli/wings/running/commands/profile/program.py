"""`archcli profile -- python train.py`: a program of the user's, watched while it runs.

This process checks the options and becomes the program (execve): its output, signals and exit code are its
own. `start/sitecustomize.py`, which Python imports before the program, sets the watch up.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from archcli.api.asking.question import Option
from archcli.commands.line.options import asking
from archcli.commands.line.programs import SEPARATOR, is_python, python_of_script, starts_program, with_python
from archcli.errors import ArchError, quote
from archcli.render import chosen_format
from archcli.render.write import check_writable, descriptor
from archcli.wings.running.api.profiling.program_options import ProgramOptions
from archcli.wings.running.api.profiling.program_prediction import check_prediction
from archcli.wings.running.commands.profile.start.sitecustomize import FOLDER, VARIABLE

WITHOUT_SITE = {"E": "ignores PYTHONPATH", "I": "ignores PYTHONPATH", "S": "imports no site"}
"""Python's letters under which nothing is imported before a program."""
TAKES_VALUE = "WXmc"
"""Python's letters whose value may be the next word; after -m and -c come the program's own arguments."""
LONG, LONG_TAKES_VALUE = "--", {"--check-hash-based-pycs"}
"""How Python's long options begin, and those whose value is the next word."""
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
    Option("Write the report to this file, too.", "-o", metavar="FILE", name="output", writes=True),
]


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
        option = "--json" if as_json else f"--format {form}"
        raise ArchError(
            f"{option} needs a file, as standard output is the program's", "add -o FILE, or leave it out"
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
    interpreter = [first] if is_python(first) else python_of_script(first)
    # a launcher is a Python script, too, but the program runs in processes that it starts
    if not interpreter or Path(first).name in LAUNCHERS:
        raise ArchError(
            f"{quote(first)} is no Python, and only a Python program can be watched", _instead(program)
        )
    executable = shutil.which(first)
    if executable is None:
        raise ArchError(f"there is no program {quote(first)} on this machine", "look at `which python`")
    letter = _without_site([*interpreter[1:], *program[1:]])
    if letter:
        raise ArchError(
            f"Python {WITHOUT_SITE[letter]} with -{letter}, and so cannot be watched", f"leave -{letter} out"
        )
    return [executable, *program[1:]]


def _instead(program: Sequence[str]) -> str:
    """What to write for words that do not begin with a Python, such as `uv run train.py`."""
    first = program[0]
    launcher = LAUNCHERS.get(Path(first).name)
    if launcher:
        return launcher
    if is_python(program[min(1, len(program) - 1)]) and "=" not in first and shutil.which(first) is None:
        return f"--against-prediction {first}, if it is a MODEL to set beside the program"
    start = next((i for i, word in enumerate(program) if starts_program(word)), None)
    if start is None:
        return "write archcli profile -- python ... in it, where it starts Python"
    return shlex.join([*program[:start], "archcli", "profile", SEPARATOR, *with_python(program[start:])])


def _without_site(args: Sequence[str]) -> str:
    """The first of Python's own letters before the program that keeps it from importing anything."""
    skipped = False
    for word in args:
        if skipped:
            skipped = False
            continue
        if word.startswith(LONG) and word != LONG:
            skipped = word in LONG_TAKES_VALUE
            continue
        if not word.startswith("-") or word in {"-", LONG}:
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
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where the shell has closed it
        stream.flush()
    if sys.platform == "win32":  # where execve leaves the caller's prompt before the program has ended
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)  # noqa: S603
    try:
        os.execve(command[0], command, environment)  # noqa: S606
    except OSError as problem:
        raise ArchError(
            f"{command[0]} cannot be started: {problem.strerror}", "name another Python"
        ) from None
