"""A rank of a plan ends at once: at Ctrl-C, when the launcher ends it, and when the launcher is gone.

While a rank waits for others within torch, Python runs no handler of a signal. So signals are taken from a
thread of their own, which has to be there before torch starts its threads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from archcli.commands.profile.launch import BAD_INPUT, RankLaunch
from archcli.errors import ArchError
from archcli.render.write import tell

ENDING = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended, as the launcher ends all ranks with one"}
POLL_S = 0.5
SPOKEN = 2
"""Ranks that say why they end: two, as the first may be the one that failed."""
OF_PEERS = ("gloo", "nccl", "Connection closed", "Connection reset", "Broken pipe")
"""Words of torch's errors where another rank has gone."""


def hold_signals() -> None:
    """Let signals wait for the thread that takes them; before torch is imported, whose threads do so too."""
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


class Ending:
    """How this rank ends, said once."""

    def __init__(self, launch: RankLaunch) -> None:
        self._launch, self._lock, self._parent = launch, threading.Lock(), os.getppid()

    def watch(self) -> None:
        """Begin to take signals that are held, in a thread."""
        if sys.platform == "linux":
            threading.Thread(target=self._wait, daemon=True).start()

    def end(self, why: str, code: int, *, always: bool = False) -> None:
        """Say why, once, and end the process with all its threads."""
        with self._lock:
            if always or self._launch.rank < SPOKEN:
                tell(f"rank {self._launch.rank}: {why}")
            os._exit(code)

    def _wait(self) -> None:
        while os.getppid() == self._parent:
            came = signal.sigtimedwait(ENDING, POLL_S)
            if came is not None:
                self.end(ENDING[signal.Signals(came.si_signo)], 128 + came.si_signo)
        self.end("ended, as its launcher is gone", BAD_INPUT)


@contextmanager
def ending_together(launch: RankLaunch) -> Iterator[None]:
    """Within the block this rank ends when another does, and says so in a line."""
    ending = Ending(launch)
    ending.watch()
    try:
        yield
    except ArchError as error:
        ending.end(" ".join(str(error).split("\n")), BAD_INPUT, always=True)
    except RuntimeError as error:
        if not any(word in str(error) for word in OF_PEERS):
            raise
        ending.end("ended, as another rank did", BAD_INPUT)
