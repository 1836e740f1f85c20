"""Options of `archcli profile` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from archcli.commands.line import completion
from archcli.commands.line.options import size, size_from
from archcli.modules.spec.arguments import AttentionKernel
from archcli.modules.spec.request import Phase

PhaseOption = Annotated[
    Phase | None,
    typer.Option(
        help="A full pass; with its backward; a pass that fills the cache; one token against a filled cache.",
        show_default="forward",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        "-b",
        metavar="N",
        parser=size("batch_size"),
        help="Sequences in the batch.",
        show_default="1",
    ),
]
SeqLen = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        "-s",
        metavar="N",
        parser=size("seq_len"),
        help="New tokens of each sequence; 8k is 8,000, 8K is 8,192.",
        show_default="128",
    ),
]
Dtype = Annotated[
    Literal["fp32", "bf16", "fp16"],
    typer.Option("--dtype", case_sensitive=False, help="Number format to run in."),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        autocompletion=completion.torch_devices,
        help="cpu, cuda or cuda:N.",
    ),
]
HideLaunch = Annotated[
    bool,
    typer.Option(
        "--hide-launch",
        help="On a GPU, queue each pass behind a waiting kernel, which hides launch overhead, and "
        "time the device.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        parser=size_from(1),
        help="Threads of an operation. [default: torch's choice]",
    ),
]
Attention = Annotated[
    AttentionKernel | None,
    typer.Option(
        "--attention",
        help="torch's fused kernel where it applies, or products and softmax each on their own.",
        show_default="sdpa",
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Run under torch.compile, on the CPU; operations fused into one kernel share a line. Needs g++.",
    ),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        metavar="N",
        parser=size_from(1),
        help="Pairs of a plain and a traced pass. [default: 10, fewer if that takes over 8 s]",
    ),
]
RepeatProcess = Annotated[
    int | None,
    typer.Option(
        "--repeat-process",
        metavar="N",
        parser=size_from(2),
        help="Measure in N fresh processes, one after another, and show medians with their range.",
    ),
]
Layers = Annotated[
    int | None,
    typer.Option(
        "--layers", metavar="N", parser=size_from(1), help="Run only the first N layers of each stack."
    ),
]
PerKind = Annotated[
    bool,
    typer.Option(
        "--per-kind",
        help="Run one and two layers of each kind and extrapolate; automatic where the model does not fit.",
    ),
]
Depth = Annotated[
    int,
    typer.Option("--depth", metavar="N", parser=size("depth"), help="Steps of a path to show; 0 for all."),
]
Top = Annotated[
    int,
    typer.Option(
        "--top",
        metavar="N",
        parser=size_from(0),
        help="Operators in the table, the slowest first; 0 for all.",
    ),
]
AgainstPrediction = Annotated[
    bool,
    typer.Option(
        "--against-prediction",
        help="Set what `archcli predict` says of the same pass beside it, by class of operation.",
    ),
]
Calibrate = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibrate",
        metavar="FILE",
        help="With --against-prediction: fit its constants to this `archcli profile --json`. Repeatable.",
    ),
]
NoCeilings = Annotated[
    bool, typer.Option("--no-ceilings", help="Do not measure the peak FLOP/s and bandwidth of this machine.")
]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Measure those peaks anew in spite of an earlier run.")
]
Allocator = Annotated[
    Literal["reuse", "system"],
    typer.Option(
        "--allocator",
        help="reuse restarts Python with glibc keeping large blocks, which saves the time of page faults.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Also draw it: an .svg or .html file; with resvg-py also a .png."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="Also write one traced pass for Perfetto, as .json or .json.gz."
    ),
]
Vs = Annotated[
    list[str] | None,
    typer.Option(
        "--vs",
        metavar="CHANGE[,CHANGE]",
        autocompletion=completion.variants,
        help="Time a variant against the model, passes in turn: norm.kind=layernorm as with --set, "
        "attention=eager, dtype=bf16, compile=true. Repeatable.",
    ),
]
