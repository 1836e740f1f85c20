"""Options of `archcli profile` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from archcli.commands.options import size_from
from archcli.modules.request import Phase

PhaseOption = Annotated[
    Phase | None,
    typer.Option(
        help="One full pass; that and its backward; a pass that fills the cache; one token against "
        "a full cache.",
        show_default="forward",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        "-b",
        metavar="N",
        parser=size_from(1),
        help="Sequences side by side.",
        show_default="1",
    ),
]
SeqLen = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        "-s",
        metavar="N",
        parser=size_from(1),
        help="New tokens in each; 8k is 8,000.",
        show_default="128",
    ),
]
Dtype = Annotated[
    Literal["fp32", "bf16", "fp16"],
    typer.Option("--dtype", help="In which numbers to run; they differ in where time goes."),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda or cuda:N.")]
HideLaunch = Annotated[
    bool,
    typer.Option(
        "--hide-launch",
        help="On a GPU, let a kernel wait ahead of each pass so that launching takes no time, and "
        "time the device.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", min=1, help="Threads within an operation [default: torch's choice]"
    ),
]
AttentionForm = Literal["sdpa", "eager"]
Attention = Annotated[
    AttentionForm | None,
    typer.Option(
        "--attention",
        help="torch's fused kernel where it can, or products and softmax apart, each timed.",
        show_default="sdpa",
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Run it under torch.compile, on the CPU: what is fused into one kernel stands on one "
        "line. Needs g++.",
    ),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        metavar="N",
        min=1,
        help="Plain and traced passes to time in turn [default: 10, fewer if that takes over 8 s]",
    ),
]
RepeatProcess = Annotated[
    int | None,
    typer.Option(
        "--repeat-process",
        metavar="N",
        min=2,
        help="Measure in N fresh processes, one after another: medians over them, with their range.",
    ),
]
Layers = Annotated[
    int | None,
    typer.Option("--layers", metavar="N", min=1, help="Run the first N layers of each stack alone."),
]
PerKind = Annotated[
    bool,
    typer.Option(
        "--per-kind",
        help="Run one and two layers of each kind, and extrapolate; by itself where the model does not fit.",
    ),
]
Depth = Annotated[
    int, typer.Option("--depth", metavar="N", min=0, help="How many steps of a path to show; 0 for all.")
]
Top = Annotated[
    int,
    typer.Option(
        "--top", metavar="N", min=0, help="How many operators the table shows, the slowest first; 0 for all."
    ),
]
NoCeilings = Annotated[
    bool, typer.Option("--no-ceilings", help="Leave out what this machine can do at best.")
]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Measure that anew, though it is known from an earlier run.")
]
Allocator = Annotated[
    Literal["reuse", "system"],
    typer.Option(
        "--allocator",
        help="reuse starts Python again with glibc told to keep large blocks, whose page faults "
        "else cost time.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Also draw it: an .svg, an .html, or with archcli[plot] a .png."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="Also write one traced pass for Perfetto: .json or .json.gz."
    ),
]
Vs = Annotated[
    list[str] | None,
    typer.Option(
        "--vs",
        metavar="CHANGE[,CHANGE]",
        help="Time a variant against the model, passes in turn: norm.kind=layernorm as with --set, "
        "attention=eager, dtype=bf16, "
        "compile=true.",
    ),
]
