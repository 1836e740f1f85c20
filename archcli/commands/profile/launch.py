"""`--tp` and `--dp`: this process among those that a launcher such as torchrun started, and its end.

A rank of a plan ends at once: at Ctrl-C, when the launcher ends it, and when the launcher is gone. While a
rank waits for others within torch, Python runs no handler of a signal. So signals are taken from a thread
of their own, which has to be there before torch starts its threads.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import typer

from archcli.errors import ArchError
from archcli.render.write import tell

BAD_INPUT = 2
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""A variable that torchrun sets, and no other launcher."""
RANK, WORLD, LOCAL_RANK, LOCAL_WORLD = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
STARTED = {RANK, WORLD, "MASTER_ADDR", "MASTER_PORT"}
"""Variables that every launcher sets."""
PATIENCE_S = 3.0
REFUSED = {
    "vs": "takes its ratios within the rounds of one process",
    "repeat_process": "starts processes of its own",
    "per_kind": "takes the model apart",
    "hide_launch": "would let ranks wait for each other behind kernels that wait",
    "compiled": "is of one process",
}
"""Options that a process by itself has, and why ranks do not."""
NAMES = {"compiled": "compile"}


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


def launch_of(context: typer.Context, tp: int, dp: int) -> RankLaunch | None:
    """This process's rank in a plan; None for a process by itself.

    Raises ArchError without a launcher, with another number of processes than the plan has ranks, and for
    options of a process by itself. All ranks find the same; the first says it.
    """
    number = tp * dp
    started = _number(os.environ, WORLD, 1) if RANK in os.environ else 1
    if number == 1 and (started == 1 or TORCHRUN not in os.environ):
        return None
    if not os.environ.keys() >= STARTED:
        raise ArchError(
            f"{_plan(tp, dp)} is of {number} processes, one for each device, and this is one alone",
            f"start them by {_command(context, number)}",
        )
    rank, local_ranks = _number(os.environ, RANK, 0), _number(os.environ, LOCAL_WORLD, started)
    local = _number(os.environ, LOCAL_RANK, rank % (local_ranks or 1))
    launch = RankLaunch(tp, dp, rank, local, local_ranks)
    with said_once(launch):
        if started != number:
            raise ArchError(
                f"{started} processes were started, and {_plan(tp, dp)} is of {number}",
                f"--nproc-per-node {number}, or --tp and --dp whose product is {started}",
            )
        for name, what in REFUSED.items():
            if context.params[name]:
                option = NAMES.get(name, name).replace("_", "-")
                raise ArchError(f"--{option} {what}", "leave it out, or --tp and --dp")
        if context.params["device"].startswith("cuda:"):
            raise ArchError("each rank has a GPU of its own", "--device cuda")
    return launch


@contextmanager
def said_once(launch: RankLaunch | None) -> Iterator[None]:
    """Let an error that all ranks find alike be said by the first alone; the others end without a word."""
    try:
        yield
    except ArchError:
        if launch is None or launch.is_first:
            raise
        time.sleep(PATIENCE_S)  # a launcher ends all with the first that ends, which is to speak before
        raise typer.Exit(BAD_INPUT) from None


def _plan(tp: int, dp: int) -> str:
    """The options that state the plan."""
    stated = " ".join(f"--{name} {value}" for name, value in (("tp", tp), ("dp", dp)) if value > 1)
    return stated or "a plan without --tp and --dp"


def _command(context: typer.Context, number: int) -> str:
    """The command that was typed, behind the launcher that starts its processes."""
    words = ["torchrun", "--no-python", "--nproc-per-node", str(number), "archcli", "profile"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(parameter: Any, value: Any) -> list[str]:
    """A parameter as it is typed."""
    values = [str(item) for item in (value if isinstance(value, list | tuple) else [value])]
    if parameter.param_type_name == "argument":
        return values
    option = max(parameter.opts, key=len)
    return [option] if value is True else [word for item in values for word in (option, item)]


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdecimal():
        raise ArchError(f"{name} is {text[:40]!r}, where a launcher writes a number", "start it by torchrun")
    return int(text)


ENDING = {
    signal.SIGINT: (1, "interrupted"),
    signal.SIGTERM: (2, "ended by SIGTERM, as launchers send it where another rank has failed"),
}
"""How many ranks say it, and what. Where one failed two say so, as that may be the first."""
POLL_S = 0.5
OF_PEERS = ("gloo", "nccl", "Connection closed", "Connection reset", "Broken pipe")
"""Words of torch's errors where another rank has gone."""


@contextmanager
def holding_signals() -> Iterator[None]:
    """Let signals wait for the thread that takes them, from here on; an error undoes it.

    Before torch is imported, whose threads let them wait, too.
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
        with self._lock:
            if saying is None or self._launch.rank < saying:
                tell(f"rank {self._launch.rank}: {why}")
            os._exit(code)

    def _wait(self) -> None:
        while os.getppid() == self._parent:
            came = signal.sigtimedwait(ENDING, POLL_S)
            if came is not None:
                saying, why = ENDING[signal.Signals(came.si_signo)]
                self.end(why, 128 + came.si_signo, saying)
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
        if not (type(error).__name__.startswith("Dist") or any(word in str(error) for word in OF_PEERS)):
            raise
        ending.end("ended, as another rank did, or could not be reached", BAD_INPUT)
