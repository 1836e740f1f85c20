"""This process as a rank that a launcher such as torchrun started, and how it ends.

A rank ends at once at Ctrl-C, at SIGTERM of the launcher, and when the launcher is gone. While a rank waits
for others within torch, Python runs no signal handlers. So a thread takes the signals; they must be blocked
before torch starts threads, which inherit the mask.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.render.write import tell

BAD_INPUT = 2
PATIENCE_S = 3.0
"""Seconds that other ranks wait with their exit, so that rank 0 prints the error first."""


class RankLaunch(NamedTuple):
    """The degrees of parallelism, and the rank of this process on all machines and on this one."""

    tp: int
    dp: int
    rank: int
    local_rank: int
    local_ranks: int

    @property
    def is_first(self) -> bool:
        """Whether this rank reports."""
        return self.rank == 0


@contextmanager
def said_once(launch: RankLaunch | None) -> Iterator[None]:
    """Let rank 0 alone print an error that all ranks raise alike; the others exit silently."""
    try:
        yield
    except ArchError:
        if launch is None or launch.is_first:
            raise
        # a launcher ends all ranks once one has ended: rank 0 is to print before that
        time.sleep(PATIENCE_S)
        raise SystemExit(BAD_INPUT) from None


ENDING = {
    signal.SIGINT: (1, "interrupted"),
    signal.SIGTERM: (2, "ended by SIGTERM, as launchers send it where another rank has failed"),
}
"""How many ranks report a signal, and the message; two after a failure, as rank 0 may have failed."""
POLL_S = 0.5
"""Seconds between two looks whether the launcher is there."""
OF_PEERS = ("gloo", "nccl", "Connection closed", "Connection reset", "Broken pipe")
"""Words of torch's errors where another rank has gone."""


@contextmanager
def holding_signals() -> Iterator[None]:
    """Block the signals that end a rank, from here on, for `Ending` to take; an error unblocks them.

    Enter it before torch is imported, so that torch's threads block them too.
    """
    if sys.platform != "linux":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


class Ending:
    """Ends this rank, with one message."""

    def __init__(self, launch: RankLaunch) -> None:
        self._launch, self._lock, self._parent = launch, threading.Lock(), os.getppid()

    def watch(self) -> None:
        """Begin to take the blocked signals, in a thread."""
        if sys.platform == "linux":
            threading.Thread(target=self._wait, daemon=True).start()

    def end(self, why: str, code: int, saying: int | None = 2) -> None:
        """End the process with all its threads; the first `saying` ranks say why, once; None: all do."""
        # held until the exit: a second thread must not say another reason or cut this one short
        with self._lock:
            if saying is None or self._launch.rank < saying:
                tell(f"rank {self._launch.rank}: {why}")
            os._exit(code)

    def _wait(self) -> None:
        # a process whose parent has ended gets another parent: init, or a subreaper
        while os.getppid() == self._parent:
            received = signal.sigtimedwait(ENDING, POLL_S)
            if received is not None:
                saying, why = ENDING[signal.Signals(received.si_signo)]
                self.end(why, 128 + received.si_signo, saying)
        self.end("ended, as its launcher is gone", BAD_INPUT)


@contextmanager
def ending_together(launch: RankLaunch) -> Iterator[None]:
    """Within the block, end this rank when another rank ends, with a line that says so."""
    ending = Ending(launch)
    ending.watch()
    try:
        yield
    except ArchError as error:
        ending.end(" ".join(str(error).split("\n")), BAD_INPUT, None)
    except RuntimeError as error:
        # DistBackendError and its kin of torch.distributed; gloo raises a plain RuntimeError
        if not (type(error).__name__.startswith("Dist") or any(word in str(error) for word in OF_PEERS)):
            raise
        ending.end("ended, as another rank did, or could not be reached", BAD_INPUT)
