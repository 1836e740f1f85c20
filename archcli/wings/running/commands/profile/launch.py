"""`--tp` and `--dp`: which rank of a plan this process is, by the variables that a launcher sets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

import typer

from archcli.errors import ArchError
from archcli.wings.running.api.profiling.rank import RankLaunch, said_once

TORCHRUN = "TORCHELASTIC_RUN_ID"
"""A variable that torchrun sets, and no other launcher."""
RANK, WORLD, LOCAL_RANK, LOCAL_WORLD = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
STARTED = {RANK, WORLD, "MASTER_ADDR", "MASTER_PORT"}
"""Variables that every launcher sets."""
REFUSED = {
    "vs": "takes its ratios within the rounds of one process",
    "repeat_process": "starts processes of its own",
    "per_kind": "takes the model apart",
    "hide_launch": "would let ranks wait for each other behind kernels that wait",
    "compiled": "is of one process",
}
"""Options that a process by itself has, and why ranks do not."""
NAMES = {"compiled": "compile"}


def launch_of(context: typer.Context, tp: int, dp: int) -> RankLaunch | None:
    """This process's rank in a plan; None for a process by itself.

    Raises ArchError without a launcher, with another number of processes than the plan has ranks, and for
    options of a process by itself. All ranks find the same; the first says it.
    """
    number = tp * dp
    started = _number(os.environ, WORLD, 1) if RANK in os.environ else 1
    # a cluster's job may have RANK set for its own reasons; torchrun's variable says that ranks were meant
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


def _plan(tp: int, dp: int) -> str:
    """The options that state the plan."""
    degrees = " ".join(f"--{name} {value}" for name, value in (("tp", tp), ("dp", dp)) if value > 1)
    return degrees or "a plan without --tp and --dp"


def _command(context: typer.Context, number: int) -> str:
    """The command that was typed, behind the launcher that starts its processes."""
    args = ["torchrun", "--no-python", "--nproc-per-node", str(number), "archcli", "profile"]
    for parameter in context.command.params:
        name = parameter.name or ""
        # what was typed alone: an option's default need not be repeated
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            args += _as_typed(parameter, context.params[name])
    return shlex.join(args)


def _as_typed(parameter: Any, value: Any) -> list[str]:
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
