"""Start this command again: with settings of the allocator, and N times for `--repeat-process N`.

The settings let glibc's allocator keep large blocks. It reads them once, when a process starts. Without them
every large tensor is mapped anew, and its page faults take 19 to 32% of a training step on a CPU (measured).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import typer

from archcli.api.asking.subject import INTERRUPTED
from archcli.errors import ArchError
from archcli.load.source import STDIN
from archcli.load.yaml.text import read_stdin
from archcli.measure.report import Report
from archcli.render.screen import progress
from archcli.render.write import tell

ANYWHERE = ("-P", "-m", "archcli")
"""Options of Python that start archcli and import nothing from the current folder (-P)."""


def program() -> list[str]:
    """The command line that started this process, without the program's own arguments.

    The interpreter and its options (-I, -P, -X) are those of this process, so that modules are looked for
    where this process looked for them. Where archcli is no program of its own, `python -P -m archcli`.
    """
    n_python = len(sys.orig_argv) - len(sys.argv[1:])
    if not is_program() or sys.orig_argv[n_python:] != sys.argv[1:]:
        return [sys.executable, *ANYWHERE]
    return [sys.executable, *sys.orig_argv[1:n_python]]


def is_program() -> bool:
    """Whether this process is the program archcli, not a test or a notebook that calls it."""
    main = sys.modules.get("__main__")
    names = {} if main is None else vars(main)
    spec, file = names.get("__spec__"), names.get("__file__") or ""
    # started as `python -m archcli`, or as a script
    return (spec is not None and spec.name == "archcli.__main__") or Path(file).stem == "archcli"


# glibc's mallopt(3); the last is torch's (alloc_cpu.cpp), which then asks for huge pages
SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "THP_MEM_ALLOC_ENABLE": "1",
}


def keep_large_blocks(choice: str, device: str) -> None:
    """Start this command again with the settings, unless they are set: on Linux, a CPU, as a program."""
    # a variable that is set is the user's choice, or this is the new process, which would start for ever
    if choice != "reuse" or device != "cpu" or sys.platform != "linux" or SETTINGS.keys() & os.environ.keys():
        return
    if not is_program():
        return
    # execve drops what Python's buffers still hold
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [*program(), *sys.argv[1:]], {**os.environ, **SETTINGS})  # noqa: S606


FOUND_FAULT, SUCCESS = 1, 0
"""Exit codes of a process that has printed a complete report."""
NOT_PASSED_ON = {"model", "repeat_process", "top", "plot", "form", "as_json", "output"}
"""Parameters that are not passed on: they shape the one report on all processes."""
REFUSED = {
    "trace": "is of one pass, which is in one process",
    "vs": "takes its ratios within the rounds of one process",
}


def in_processes(context: typer.Context, number: int) -> Report:
    """Run the command of the context `number` times, and join the reports.

    An interrupt keeps the processes that have finished. Raises ArchError for options of a single process.
    """
    params = context.params
    for name, what in REFUSED.items():
        if params[name]:
            raise ArchError(f"--{name} {what}", "leave it out, or --repeat-process")
    from archcli.wings.running.profile.reports.joined import repeated  # of several processes alone

    return repeated(_documents(context, number), number, params["top"])


def _documents(context: typer.Context, number: int) -> list[Any]:
    """The JSON documents of the processes that finish."""
    command = [
        *program(),
        "profile",
        *_options(context),
        "--json",
        # a MODEL may begin with a dash
        "--",
        context.params["model"],
    ]
    # standard input can be read once, and every process needs it
    text = read_stdin() if context.params["model"] == STDIN else b""
    done: list[Any] = []
    try:
        with progress("profiling in fresh processes") as tick:
            for i in range(number):
                tick(f"process {i + 1}", i, number)
                done.append(_run_report(command, text))
    except KeyboardInterrupt:
        if not done:
            tell("interrupted before the first process had finished")
            raise typer.Exit(INTERRUPTED) from None
    return done


def _options(context: typer.Context) -> Iterator[str]:
    """The options of the command with their values, defaults included."""
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        if name in NOT_PASSED_ON or value is None or value is False:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            # NAME=VALUE in one word, as a value may begin with a dash
            yield parameter.opts[0] if item is True else f"{parameter.opts[0]}={item}"


def _run_report(command: list[str], text: bytes) -> Mapping[str, Any]:
    """Run a process and parse the JSON document it prints; its stderr is passed on."""
    code, out, err = _run_child(command, text)
    if code in {SUCCESS, FOUND_FAULT} and out:
        printed: Mapping[str, Any] = json.loads(out)
        return printed
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    tell(err.decode(errors="replace").rstrip())
    if code > 0:
        raise typer.Exit(code)
    raise ArchError(
        f"a process was ended by signal {-code}", "signal 9 is often that of a machine without memory left"
    )


def _run_child(command: list[str], text: bytes) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr) of a child process that reads the text; an interrupt ends it, too."""
    process = None
    try:
        with _delayed_interrupts():
            process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)  # noqa: S603
        out, err = process.communicate(text)
    finally:
        if process is not None:
            with process:  # which closes its pipes and waits for it
                process.kill()
    return process.returncode, out, err


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay interrupts within the block, so that no started process is left running."""
    # another handler, or SIG_IGN, stays in place: the child process inherits an ignored signal
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
