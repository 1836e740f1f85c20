"""`archcli memory`: what training or inference of an architecture takes, and what fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.api.arguments import record_of
from archcli.api.device import device_memory
from archcli.api.subject import Subject, subject
from archcli.commands.line import completion
from archcli.commands.line.options import (
    BackendOption,
    BatchSize,
    Form,
    GradAccum,
    Json,
    Model,
    Output,
    RecomputeOption,
    Set,
    SourceLen,
    Tokens,
    picture_file,
    size_from,
)
from archcli.commands.line.plan_options import (
    Cp,
    Dp,
    Ep,
    MicroBatches,
    Pp,
    ScheduleOfStages,
    Sp,
    Tp,
    VirtualStages,
    Zero,
)
from archcli.measure.memory.answers.question import Fit, MemoryQuestion
from archcli.measure.memory.answers.report import count_memory
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase, MemorySettings
from archcli.measure.report import Report
from archcli.render import show

PhaseOption = Annotated[
    MemoryPhase,
    typer.Option(
        "--phase",
        help="train: a training step; forward: a pass without a cache, as of an encoder; prefill: a prompt; "
        "decode: one token against a full cache; serve: an engine that serves sequences.",
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option("--dtype", metavar="TYPE", help="Of weights and activations: bf16, fp16, fp32."),
]
AttentionOption = Annotated[
    AttentionForm, typer.Option("--attention", help="torch's fused kernel (flash, sdpa), or step by step.")
]
OptimizerOption = Annotated[
    str,
    typer.Option(
        "--optimizer",
        metavar="NAME",
        help="adamw, adamw-fused, adamw-mixed, sgd, sgd-momentum, adafactor, adam8bit or muon.",
    ),
]
LossOption = Annotated[
    str, typer.Option("--loss", metavar="FORM", help="plain, chunked:N or fused cross entropy.")
]
Chunk = Annotated[
    int | None,
    typer.Option("--chunk", metavar="N", parser=size_from(1), help="Tokens of a prefill at a time."),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="[Nx]NAME",
        autocompletion=completion.devices,
        help="Of `archcli devices`, a YAML file, or local: 8xh100-sxm.",
    ),
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory in place of a device: 80GiB, 24GB.")
]
FitOption = Annotated[
    Fit | None,
    typer.Option(
        "--fit",
        help="Find what fits: the largest batch or context, the least recomputation, the fewest devices.",
    ),
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        parser=picture_file,
        help="Draw the moments by their parts and the peak by batch size: an .svg, .html or .png.",
    ),
]
Alternatives = Annotated[
    bool,
    typer.Option(
        "--alternatives",
        help="Add tables of what other recomputations, optimizers, losses and attention would take.",
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    phase: PhaseOption = "train",
    batch_size: BatchSize = 1,
    seq_len: Tokens = None,
    source_len: SourceLen = None,
    dtype: DtypeOption = "bf16",
    attention: AttentionOption = "flash",
    backend: BackendOption = "cuda",
    optimizer: OptimizerOption = "adamw",
    recompute: RecomputeOption = "none",
    loss: LossOption = "plain",
    grad_accum: GradAccum = 1,
    chunk: Chunk = None,
    dp: Dp = 1,
    zero: Zero = 0,
    tp: Tp = 1,
    sp: Sp = False,
    pp: Pp = 1,
    micro_batches: MicroBatches = 1,
    schedule: ScheduleOfStages = "1f1b",
    virtual_stages: VirtualStages = 1,
    ep: Ep = 1,
    cp: Cp = 1,
    device: DeviceOption = None,
    memory: MemoryOption = None,
    fit: FitOption = None,
    alternatives: Alternatives = False,
    plot: PlotFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the memory of training or inference, and say what fits.

    The bytes at the peak are exact for the model that archcli builds: weights, gradients, optimizer states,
    activations kept for backward, the loss and temporaries.
    In training --batch-size is that of one replica, otherwise all sequences in flight.
    """
    options = locals()
    asked = subject(model, overrides)
    settings, plan = record_of(MemorySettings, options), record_of(Plan, options)
    question = MemoryQuestion(asked.model, settings, plan, device_memory(device, memory))
    report = _report(asked, question, fit, alternatives=alternatives)
    if plot is not None:
        _draw(report, question, plot)
    show(report, form, output, as_json=as_json)


def _report(asked: Subject, question: MemoryQuestion, fit: Fit | None, *, alternatives: bool) -> Report:
    """The report, with progress on a terminal while it searches."""
    if fit is None:
        return asked.named(count_memory(question, show_alternatives=alternatives))
    from archcli.api.device import known_gpus
    from archcli.render.screen import progress

    with progress(f"fitting {asked.name}") as tick:
        report = count_memory(
            question,
            what_fits=fit,
            show_alternatives=alternatives,
            tell=lambda attempt: tick(attempt, 0, 0),
            devices=known_gpus() if fit == "devices" and question.device is None else (),
        )
    return asked.named(report)


def _draw(report: Report, question: MemoryQuestion, output: Path) -> None:
    """Write the picture of a report."""
    from archcli.api.device import known_gpus
    from archcli.measure.memory.answers.tables import batch_curve
    from archcli.render.picture.memory import save_memory

    save_memory(report, batch_curve(question, known_gpus()), output)
