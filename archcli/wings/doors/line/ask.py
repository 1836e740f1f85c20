"""A command line answered without typer: the text of the answer, or the error that the program prints.

    ask(["params", "gpt2"])                         # the report's JSON
    ask(["draw", "gpt2", "-o", "-"])                # the SVG
    ask(["params", "gpt2", "--dtype", "fp7"])       # ArchError, with what the program says

Where the packages that print on a terminal are missing, as in a browser, commands are asked by this.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from archcli.api.asking.question import Option
from archcli.commands.line.names import COMMANDS, near_command, place_of
from archcli.commands.line.values import picture_file, reader
from archcli.errors import ArchError, quote
from archcli.plugins import imported
from archcli.render.write import STDOUT, descriptor
from archcli.wings.doors.line.words import (
    HELP,
    LineParameter,
    Words,
    parameters_of,
    printable,
    usage_error,
)

ELSEWHERE = {
    "profile": "it measures this machine with torch; `predict` says how long a pass takes on a device",
    "verify": "it builds the model with torch; `params`, `flops` and `memory` count without",
    "summary": "it runs a module with torch; `params` and `flops` count an architecture",
    "plot": "it draws a saved profile into a file; `draw MODEL -o -` gives an architecture as SVG",
    "mcp": "it serves an assistant over standard input; any other command answers here",
}
"""Commands that are asked on a command line alone, with what can be asked instead."""
OF_THEIR_OWN = ("suggest", "this")
"""Switches with which a command prints a text that has no JSON."""
VERSION = LineParameter("version", Option("Print the versions."), bool, default=False)
SHELLS = [
    LineParameter(name, Option("For the completion of a shell."), bool, default=False)
    for name in ("install_completion", "show_completion")
]


def ask(argv: Sequence[str], *, as_json: bool = True) -> str:
    """What `archcli ARGV` prints; its JSON, unless the words name a format or `as_json` is false.

    A text that has no JSON, such as a drawing or a patch, is returned as it is. Raises ArchError where the
    program prints an error, `render.findings.complain` of which is its text; and for what writes files.
    """
    # a stream with bytes and an encoding, as pictures are written by the byte
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    with redirect_stdout(stream):
        run_line(argv, as_json=as_json)
    stream.flush()
    return stream.buffer.getvalue().decode()


def run_line(argv: Sequence[str], *, as_json: bool = False) -> int:
    """Run a command line, which prints its answer to standard output; returns the exit code."""
    name, args = _command(argv)
    run = imported(place_of(name))
    path = f"archcli {name}"
    parameters = parameters_of(run)
    read = Words(path, parameters).read(args)
    _refuse_help(read, path)
    values = _values(read)
    if read.extra:
        extra = " ".join(map(printable, read.extra))
        raise usage_error(
            f"Got unexpected extra argument(s) ({extra})",
            path,
            [name for it in parameters for name in it.names],
        )
    _refuse_files(parameters, values)
    drawn = any(it.option.reads == "picture" and values.get(it.name) is not None for it in parameters)
    if as_json and "as_json" in values and values.get("form") is None and not drawn:
        values["as_json"] |= not any(values.get(switch) for switch in OF_THEIR_OWN)
    return run(**values) or 0


def _command(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The subcommand and its words. Raises ArchError where none is named, or one that is not asked here."""
    named = next((word for word in argv if not word.startswith("-")), "") in COMMANDS
    # the program has the options of a shell's completion where no subcommand is named
    read = Words("archcli", [VERSION, *([] if named else SHELLS), HELP]).read(argv, interspersed=False)
    _refuse_help(read, "archcli")
    if not read.extra and argv:
        raise usage_error("Missing command.")
    name, *args = read.extra or ("",)
    if name not in COMMANDS:
        hint = near_command(name, COMMANDS) or "archcli -h lists them"
        raise ArchError(f"no command {quote(name)}" if argv else "no command is named", hint)
    if name in ELSEWHERE:
        raise ArchError(f"archcli {name} is not answered here", ELSEWHERE[name])
    return name, args


def _refuse_help(read: Words, path: str) -> None:
    """Raise ArchError for what typer prints by itself: help, versions, scripts of shells."""
    for option in (HELP, VERSION, *SHELLS):
        if option.name in read.values:
            name = option.name.replace("_", "-")
            raise ArchError(f"{path} --{name} is not answered here", "archcli prints it on a command line")


def _refuse_files(parameters: Sequence[LineParameter], values: dict[str, Any]) -> None:
    """Raise ArchError for a file that would be written."""
    for parameter in parameters:
        option, file = parameter.option, values.get(parameter.name)
        if file is None or not (option.writes or option.reads == "picture"):
            continue
        if descriptor(Path(file)) != STDOUT:
            named = "`-o -` returns the text" if "-o" in parameter.names else "leave it out"
            raise ArchError(f"{parameter.shown} writes a file, and none is written here", named)


def _values(read: Words) -> dict[str, Any]:
    """The value of every parameter; ArchError for the first that is wrong, in the order of the words."""
    order = [*read.values]
    sequence = sorted(
        (parameter for parameter in read.parameters if parameter is not HELP),
        key=lambda it: order.index(it.name) if it.name in order else len(order),
    )
    return {parameter.name: _value(parameter, read) for parameter in sequence}


def _value(parameter: LineParameter, read: Words) -> Any:
    """The value of a parameter: of its texts the last, or all where it repeats; else the default."""
    texts = read.values.get(parameter.name, [])
    if not texts and parameter.required:
        kind = "argument" if parameter.option.argument else "option"
        raise usage_error(f"Missing {kind} {parameter.shown}.", read.path, args=read.extra)
    if not texts or parameter.switches:
        return texts[-1] if texts else parameter.default
    values = [_converted(parameter, text, read.path) for text in (texts if parameter.repeats else texts[-1:])]
    return values if parameter.repeats else values[-1]


def _converted(parameter: LineParameter, text: str, path: str) -> Any:
    """The value that a text stands for; ArchError as typer's becomes one."""
    if parameter.option.reads == "picture":
        return picture_file(text)
    try:
        if parameter.option.reads:
            return reader(parameter.name, parameter.option, parameter.annotation)(text)
        return _typed(parameter, text)
    except ArchError as problem:
        raise usage_error(f"Invalid value for {parameter.shown}: {problem}", path) from None


def _typed(parameter: LineParameter, text: str) -> Any:
    """A text as a value of the parameter's type: a choice, a file, or the text itself."""
    kinds = [parameter.kind, *get_args(parameter.kind)]
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), None)
    if choices is not None:
        return _choice(text, choices, any_case=parameter.option.any_case)
    if Path in {*kinds, *(item for kind in kinds for item in get_args(kind))}:
        return _file(text)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ArchError("Input should be a valid string, unable to parse raw data as a unicode string")
    return text


def _choice(text: str, choices: Sequence[str], *, any_case: bool) -> str:
    def normal(word: str) -> str:
        return word.casefold() if any_case else word

    known = {normal(choice): choice for choice in choices}
    if normal(text) not in known:
        raise ArchError(f"{printable(repr(text))} is not one of {', '.join(map(repr, known))}.")
    return known[normal(text)]


def _file(text: str) -> Path:
    path = Path(text)
    # os.path: a name that is too long is a file that is not there
    if os.path.exists(text) and not os.access(path, os.R_OK):  # noqa: PTH110
        raise ArchError(f"path {text!r} is not readable.")
    return path
