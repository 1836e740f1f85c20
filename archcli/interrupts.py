"""Ctrl-C while the program starts: it ends quietly with exit code 130, whatever is being imported.

Imported before all else, and only where this process is the program: a library leaves signals alone.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130  # what a shell reports of a program that SIGINT ended: 128 + 2
SCRIPTS = {"archcli", "archcli.exe", "archcli-script.py"}


def is_program() -> bool:
    """Whether this process was started as `archcli` or `python -m archcli`."""
    if sys.argv[:1] == ["-m"]:  # as Python has it until __main__.py runs
        return ("-m", "archcli") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return bool(sys.argv) and os.path.basename(sys.argv[0]) in SCRIPTS  # noqa: PTH119 - pathlib takes long


def exit_at_interrupts() -> bool:
    """Exit at once at an interrupt. Returns False where that cannot be set up, as under nohup."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, exit_now)
        except ValueError:  # outside of the main thread, to which interrupts go
            return False
    return handler in {signal.default_int_handler, exit_now}


def exit_now(*_: object) -> None:
    """Exit without unwinding: during an import Python may print or lose the exception."""
    os._exit(INTERRUPTED)


def exit_at_lost_interrupts() -> None:
    """Exit where Python would print an interrupt and go on, as in a callback of its import system."""
    report = sys.unraisablehook

    def exit_or_report(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            exit_now()
        report(unraisable)

    sys.unraisablehook = exit_or_report


if is_program():
    exit_at_interrupts()
