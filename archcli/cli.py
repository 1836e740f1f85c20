"""The program `archcli`: how it starts, is interrupted, and ends.

Everything else is imported within `main`, where an interrupt is answered.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from archcli.interrupts import INTERRUPTED, exit_at_interrupts, exit_at_lost_interrupts

GARBAGE = 20_000
"""New objects before the collector looks through them: a trace of 700 layers makes a million, all in use."""


def main() -> None:
    """Run the command line, and exit with its code."""
    exit_at_lost_interrupts()
    gc.disable()  # imported modules stay until the end: looking for garbage in them took a tenth of a start
    try:
        with _exit_at_interrupts():
            from archcli.commands.line.application import application, exit_code
            from archcli.commands.line.names import without_help
            from archcli.render.write import replace_closed_streams

            replace_closed_streams()
            args = without_help(sys.argv[1:])
            app = application(args)
        # what was imported is left out of all later collections
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()
        sys.exit(exit_code(app, args))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextmanager
def _exit_at_interrupts() -> Iterator[None]:
    """Exit at once at an interrupt within the block."""
    exits = exit_at_interrupts()
    try:
        yield
    finally:
        if exits:
            signal.signal(signal.SIGINT, signal.default_int_handler)
