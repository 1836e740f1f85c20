"""Functions that workers of a test call: each is found again by its module in another process."""

import os
import signal
from pathlib import Path

from archcli.errors import ArchError


def squares(folder, fatal):
    """Squares of parts. The worker of the part `fatal` is killed as often as files of `folder` last."""

    def answer(part):
        if part == fatal:
            left = sorted(Path(folder).iterdir())
            if left:
                left[0].unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return part * part, os.getpid()

    return answer


def refusing(what):
    """An answer that is an error, for parts above 2."""

    def answer(part):
        if part > 2:
            raise ArchError(what, "take a smaller one")
        return part

    return answer


def deaths(folder, number):
    """The folder with a file for each time that a worker is to be killed."""
    for i in range(number):
        (folder / str(i)).touch()
    return str(folder)
