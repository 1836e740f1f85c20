"""`archcli predict`: how long a pass or a training step takes on a GPU you do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.api.arguments import record_of
from archcli.api.predict import AskedTime, asked_question
from archcli.api.subject import subject
from archcli.commands.line import completion
from archcli.commands.line.options import (
    BackendOption,
    BatchSize,
    Form,
    GradAccum,
    Json,
    Model,
    Output,
    Past,
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
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase
from archcli.measure.predict.answers.question import Curve, FitTime, PredictQuestion
from archcli.measure.predict.answers.report import predict
from archcli.measure.predict.rank.kernels import CacheReads
from archcli.measure.predict.serving.engines import EngineName
from archcli.measure.report import Report
from archcli.render import show

PhaseOption = Annotated[
    MemoryPhase,
    typer.Option(
        "--phase",
        help="train: a training step; forward: a pass without a cache, as of an encoder; prefill: a prompt; "
        "decode: one token of each sequence; serve: a prompt and --new tokens after it.",
    ),
]
New = Annotated[
    int | None,
    typer.Option(
        "--new",
        metavar="N",
        parser=size_from(1),
        help="With --phase serve: tokens made of each sequence. [default: 128]",
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="bf16, fp16, fp32; fp8: matrix products and the cache, all else in bf16.",
    ),
]
AttentionOption = Annotated[
    AttentionForm, typer.Option("--attention", help="One fused kernel (flash, sdpa), or step by step.")
]
EngineOption = Annotated[
    EngineName,
    typer.Option("--engine", help="Add the overhead of an inference engine, by one factor."),
]
KvRead = Annotated[
    CacheReads,
    typer.Option(
        "--kv-read",
        help="Read keys and values once for the query heads that share them, or once for each query head.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="[Nx]NAME",
        autocompletion=completion.devices,
        help="Of `archcli devices`, a YAML file, or local: 8xh100-sxm.",
    ),
]
Price = Annotated[
    float | None,
    typer.Option("--price-per-hour", metavar="PRICE", help="Of one device, in any currency."),
]
Calibrate = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibrate",
        metavar="FILE",
        help="With --device local: fit its constants to this `archcli profile --json`. Repeatable.",
    ),
]
TrainedTokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        metavar="N",
        parser=size_from(1),
        help="With --phase train: tokens of the whole training, 15T or 1e12.",
    ),
]
CurveOption = Annotated[
    Curve | None, typer.Option("--curve", help="Add a table: the same over batch sizes, contexts or devices.")
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        parser=picture_file,
        help="Draw latency against throughput, and the roofline with the rows: an .svg, .html or .png.",
    ),
]
CompileOption = Annotated[
    bool,
    typer.Option("--compile", help="Kernels fused as torch.compile does; on one device, without an engine."),
]
FitOption = Annotated[
    FitTime | None, typer.Option("--fit", help="Find the fastest plan that fits into the devices.")
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    device: DeviceOption,
    calibrate: Calibrate = None,
    phase: PhaseOption = "decode",
    batch_size: BatchSize = 1,
    seq_len: Tokens = None,
    past: Past = None,
    new: New = None,
    source_len: SourceLen = None,
    dtype: DtypeOption = "bf16",
    attention: AttentionOption = "flash",
    backend: BackendOption = "cuda",
    compiled: CompileOption = False,
    recompute: RecomputeOption = "none",
    grad_accum: GradAccum = 1,
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
    engine: EngineOption = "none",
    kv_read: KvRead = "groups",
    price_per_hour: Price = None,
    tokens: TrainedTokens = None,
    curve: CurveOption = None,
    fit: FitOption = None,
    plot: PlotFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Predict how long it takes on a GPU you do not have.

    Three figures: the limit that the device's peaks set, the expected time by measured kernels, and a range
    that held 80% of the measurements not used for fitting.
    In training --batch-size is that of one replica, otherwise all sequences in flight. Without a plan several
    devices share the model as is usual: --tp within a node for inference, --dp with --zero 3 for training.
    """
    options = locals()
    asked = subject(model, overrides)
    question = asked_question(asked.model, record_of(AskedTime, options), record_of(Plan, options))
    report = asked.named(predict(question, curve=curve, what_fits=fit))
    if plot is not None:
        _draw(report, question, curve, plot)
    show(report, form, output, as_json=as_json)


def _draw(report: Report, question: PredictQuestion, curve: Curve | None, output: Path) -> None:
    """Write the picture of a report."""
    from archcli.measure.predict.answers.curve import KEYS, curve_points
    from archcli.render.picture.predict import save_prediction

    kind, rates = curve or "batch", question.timing.clock.rates
    points = report.totals.get("curve") or curve_points(question, kind)
    dtype = question.asked.dtype
    ceilings = {"gemm_flops_per_s": rates.peak(dtype), "dram_bytes_per_s": rates.bandwidth}
    save_prediction(report, points, KEYS[kind], ceilings, output)
