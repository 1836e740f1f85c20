"""Options of a plan, by which several devices share a model; spelled alike in all commands."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.commands.line.options import size_from
from archcli.modules.spec.arguments import Schedule

Tp = Annotated[
    int,
    typer.Option(
        "--tp", metavar="N", parser=size_from(1), help="Devices that share each matrix (tensor parallelism)."
    ),
]
Sp = Annotated[
    bool,
    typer.Option(
        "--sp",
        help="With --tp, but not in decoding: devices also share the tokens of norms and residuals "
        "(sequence parallelism).",
    ),
]
Pp = Annotated[
    int,
    typer.Option(
        "--pp",
        metavar="N",
        parser=size_from(1),
        help="Stages that the layers are cut into (pipeline parallelism).",
    ),
]
Ep = Annotated[
    int,
    typer.Option(
        "--ep", metavar="N", parser=size_from(1), help="Devices that share the experts (expert parallelism)."
    ),
]
Dp = Annotated[
    int,
    typer.Option(
        "--dp",
        metavar="N",
        parser=size_from(1),
        help="Replicas, each with its own sequences (data parallelism).",
    ),
]
Zero = Annotated[
    int,
    typer.Option(
        "--zero",
        metavar="N",
        min=0,
        max=3,
        help="In training, shard over the devices of --dp and --cp: 1 the optimizer's states, "
        "2 gradients too, 3 weights too (FSDP2).",
    ),
]
MicroBatches = Annotated[
    int,
    typer.Option(
        "--micro-batches",
        metavar="N",
        parser=size_from(1),
        help="Batches that pass through the stages of --pp, one after the other.",
    ),
]
ScheduleOfStages = Annotated[
    Schedule,
    typer.Option(
        "--schedule",
        help="Stages of one group of layers each, or with --virtual-stages of several, interleaved.",
    ),
]
VirtualStages = Annotated[
    int,
    typer.Option(
        "--virtual-stages",
        metavar="N",
        parser=size_from(1),
        help="Groups of layers in each stage of an interleaved schedule.",
    ),
]
Cp = Annotated[
    int,
    typer.Option(
        "--cp",
        metavar="N",
        parser=size_from(1),
        help="In training, devices that share the tokens of a sequence (context parallelism).",
    ),
]
