"""The options of `archcli profile -- PROGRAM`, as a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from archcli.api.asking.options import CONTEXT
from archcli.api.asking.question import Option, count_option
from archcli.modules.spec.values import AboveZero, ZeroOrMore
from archcli.wings.running.recording.program import StepOn

Program = Annotated[
    Sequence[str],
    Option(
        "The program as you start it: python train.py --lr 3e-4, or python -m package.",
        metavar="-- PROGRAM",
        argument=True,
    ),
]
StepsEnd = Annotated[
    StepOn,
    Option("What ends a step: the optimizer's step, or a pass through the outermost module (inference)."),
]
WarmUp = Annotated[AboveZero, count_option("Steps to leave out at first.")]
Steps = Annotated[AboveZero, count_option("Steps to trace, each beside a plain one.")]
Stop = Annotated[bool, Option("End the program when these steps are over, with exit code 0.")]
AgainstModel = Annotated[
    str | None,
    Option(
        "Set what `archcli predict` says of a training step of this architecture beside it.",
        metavar="MODEL",
        completes="models",
    ),
]
PredictedOn = Annotated[
    str | None,
    Option(
        "With --against-prediction: the device to predict for. [default: this machine]",
        metavar="DEVICE",
        completes="devices",
    ),
]
PredictedBatch = Annotated[
    AboveZero | None,
    count_option("With --against-prediction: sequences in a batch. [default: as the program has it]", "-b"),
]
PredictedLength = Annotated[
    AboveZero | None,
    count_option(
        "With --against-prediction: tokens of a sequence. [default: as the program has it]", "-s", "", CONTEXT
    ),
]
Summary = Annotated[
    bool, Option("Report in at most 40 lines of Markdown: what takes the time, and what to try.")
]
ShownDepth = Annotated[ZeroOrMore, count_option("Steps of a module's path to show; 0 for all.")]
ShownTop = Annotated[ZeroOrMore, count_option("Modules in the table, the slowest first; 0 for all.")]


@dataclass(frozen=True)
class ProgramOptions:
    """Options of `archcli profile -- PROGRAM`."""

    program: Program = ()
    _: KW_ONLY
    step_on: StepsEnd = "optimizer"
    warm_up: WarmUp = 2
    steps: Steps = 5
    stop: Stop = False
    against_prediction: AgainstModel = None
    device: PredictedOn = None
    batch_size: PredictedBatch = None
    seq_len: PredictedLength = None
    no_ceilings: Annotated[bool, Option("Do not measure the peak FLOP/s of this machine, nor MFU.")] = False
    md: Summary = False
    depth: ShownDepth = 0
    top: ShownTop = 15
