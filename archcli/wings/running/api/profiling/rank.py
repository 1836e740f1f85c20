"""A rank of a plan: this process among those that a launcher such as torchrun started, and its end.

A rank ends at once: at Ctrl-C, when the launcher ends it, and when the launcher is gone. While a rank waits
for others within torch, Python runs no handler of a signal. So signals are taken from a thread of their own,
which has to be there before torch starts its threads.
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


class RankLaunch(NamedTuple):
    """Which rank this process is, of how many, on all machines and on this one."""

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
    """Let an error that all ranks find alike be said by the first alone; the others end without a word."""
    try:
        yield
    except ArchError:
        if launch is None or launch.is_first:
            raise
        time.sleep(PATIENCE_S)  # a launcher ends all with the first that ends, which is to speak before
        raise SystemExit(BAD_INPUT) from None


ENDING = {
    signal.SIGINT: (1, "interrupted"),
    signal.SIGTERM: (2, "ended by SIGTERM, as launchers send it where another rank has failed"),
}
"""How many ranks report a signal, and the message; two after a failure, as rank 0 may have failed."""
POLL_S = 0.5
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
    """How this rank ends, said once."""

    def __init__(self, launch: RankLaunch) -> None:
        self._launch, self._lock, self._parent = launch, threading.Lock(), os.getppid()

    def watch(self) -> None:
        """Begin to take signals that are held, in a thread."""
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
        # a process whose parent is gone is given another parent
        while os.getppid() == self._parent:
            received = signal.sigtimedwait(ENDING, POLL_S)
            if received is not None:
                saying, why = ENDING[signal.Signals(received.si_signo)]
                self.end(why, 128 + received.si_signo, saying)
        self.end("ended, as its launcher is gone", BAD_INPUT)


@contextmanager
def ending_together(launch: RankLaunch) -> Iterator[None]:
    """Within the block this rank ends when another does, and says so in a line."""
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
