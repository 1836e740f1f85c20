"""`predict`, the Python function of `archcli predict`, and its question from plain arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from archcli.api.asking.options import (
    Backend,
    BatchSize,
    ChosenOptimizer,
    ChosenRecompute,
    Chunk,
    Engine,
    Files,
    GradAccum,
    Gradients,
    KvDtype,
    MediaOptions,
    Past,
    SourceLen,
    Tokens,
    Utilization,
)
from archcli.api.asking.question import Option, asks, count_option, part
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.report import Report
from archcli.measure.weights.stored_bytes import as_asked
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import PaceText
from archcli.modules.spec.values import AboveZero
from archcli.modules.stored.dtypes import WeightsDtypeName
from archcli.wings.serving.api.engine import (
    as_converted,
    run_by_engine,
    take_format,
    that_runs,
    version_notes,
)
from archcli.wings.serving.api.known_device.known import KnownDevice, known_device
from archcli.wings.serving.api.known_device.machines import Machines, NetworkOptions
from archcli.wings.serving.api.loaded.options import NO_LOAD, LoadOptions, as_served
from archcli.wings.serving.api.offload import OffloadOptions
from archcli.wings.serving.api.plan_options import WHOLE, Adapters, Free, PlanOptions
from archcli.wings.serving.api.programs.adapters import with_adapters
from archcli.wings.serving.api.programs.command_lines import with_command
from archcli.wings.serving.api.programs.drafts import ALONE, TEXT, DraftOptions
from archcli.wings.serving.api.programs.pasted import with_commands
from archcli.wings.serving.api.programs.trainer import TrainerOptions, of_known_plan, trainer_named
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.launches.memory.trainer import with_method
from archcli.wings.serving.memory.answers.offloading import of_model
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import FP8, AttentionForm, MemoryPhase, MemorySettings
from archcli.wings.serving.predict.answers.question import (
    DEFAULT_NEW,
    Curve,
    FitTime,
    PredictedDevice,
    PredictQuestion,
    PredictSettings,
    Price,
)
from archcli.wings.serving.predict.answers.report import predict as predict_times
from archcli.wings.serving.predict.live import LiveServer
from archcli.wings.serving.predict.rank.kernels import CacheReads

CHOSEN = ("dp", "zero", "tp", "sp", "pp", "micro_batches", "ep", "dp_attention")
"""Degrees that --fit time chooses."""


Phase = Annotated[
    MemoryPhase,
    Option(
        "train: a training step; forward: a pass without a cache; prefill: a prompt; decode: one token of "
        "each sequence; serve: a prompt and --new tokens."
    ),
]
New = Annotated[
    AboveZero | None,
    count_option("With --phase serve: tokens made of each sequence. [default: 128]"),
]
ComputedDtype = Annotated[
    WeightsDtypeName | None,
    Option(
        "bf16, fp16, fp32, or a format of the weights alone: fp8, q4_k_m. [default: of inference as "
        "published, else bf16, or fp16 on a device that lacks bf16]",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
Attention = Annotated[AttentionForm, Option("One kernel of any kind, torch's (sdpa), or in steps.")]
KvRead = Annotated[
    CacheReads,
    Option("Read keys and values once for query heads that share them, or for each.", rare=True),
]
OneDevice = Annotated[
    str,
    Option(
        "Of `archcli devices`, an instance, a line '24GB, 1008GB/s', a YAML file, or local: 8xh100-sxm.",
        metavar="[Nx]NAME",
        completes="devices",
    ),
]
PriceOption = Annotated[
    Price | None, Option("Of one device, in any currency.", metavar="PRICE", reads="number")
]
PricesOption = Annotated[
    str | None,
    Option(
        "Prices of an hour: a YAML file, `shipped`, or `gpuhunt`, whose catalogue is on this machine.",
        metavar="FILE",
    ),
]
Grid = Annotated[str | None, Option("CO2 of a kWh: 400g/kWh.", metavar="RATE", reads="text")]
Calibrate = Annotated[
    Files,
    Option(
        "With --device local: fit its constants to this `archcli profile --json`. Repeatable.",
        metavar="FILE",
    ),
]
TrainedTokens = Annotated[
    AboveZero | None,
    count_option("With --phase train: tokens of the whole training, 15T or 1e12."),
]
CurveOption = Annotated[
    Curve | None, Option("Add a table: the same over batch sizes, contexts, devices or rates.")
]
Compiled = Annotated[
    bool,
    Option("Kernels fused as torch.compile does, without an engine.", name="compile"),
]
MeasuredOption = Annotated[
    PaceText | None,
    Option(
        "What you measured: time of a step, pass or token as --phase says (serve: a token after the first), "
        "850ms; or tokens a second of all, 20tok/s. Says where the gap lies.",
        metavar="TIME",
        reads="text",
    ),
]
FitOption = Annotated[
    FitTime | None, Option("The fastest plan that fits, or under a load the fewest devices.")
]


OF_TRAINER = "What {} sets and holds is counted; its times are those of archcli's modules{}."
OF_FUSING = ", with kernels fused as torch.compile does"
OF_REFERENCE = "The pass of the reference model is not timed."


@dataclass(frozen=True)
class PredictOptions(
    LoadOptions, DraftOptions, NetworkOptions, OffloadOptions, PlanOptions, MediaOptions, TrainerOptions
):
    """Options of `archcli predict`; None for one left out."""

    model: ModelLike
    device: OneDevice
    calibrate: Calibrate = field(default=(), kw_only=True)
    phase: Phase = "decode"
    batch_size: BatchSize = 1
    seq_len: Tokens = None
    _: KW_ONLY
    past: Past = None
    new: New = None
    source_len: SourceLen = None
    dtype: ComputedDtype = None
    attention: Attention = "flash"
    backend: Backend = "cuda"
    compiled: Compiled = False
    recompute: ChosenRecompute = None
    grad_accum: GradAccum = 1
    engine: Engine = None
    kv_read: KvRead = "groups"
    kv_dtype: KvDtype = None
    price_per_hour: PriceOption = None
    prices: PricesOption = None
    grid: Grid = None
    tokens: TrainedTokens = None
    curve: CurveOption = None
    fit: FitOption = None
    measured: MeasuredOption = None
    chunk: Chunk = None
    utilization: Utilization = None
    optimizer: ChosenOptimizer = None
    gradients: Gradients = None
    free: Free = None
    adapters: Adapters = None

    def __post_init__(self) -> None:
        """Replace a word such as 4bit by the format that users of the engine mean by it."""
        object.__setattr__(self, "engine", self.engine_in(self.phase, self.engine))
        take_format(self, self.engine or ("transformers" if self.phase == "train" else None))

    def settings(self, model: Model | None = None) -> MemorySettings:
        """The MemorySettings of the pass. Raises ArchError for `past` in a phase that takes none."""
        decodes = self.phase == "decode"
        if self.past is not None and self.phase not in {"decode", "prefill"}:
            what = f"--past applies to decode and prefill only, and the phase is {self.phase}"
            raise ArchError(what, "state the tokens of a sequence: --seq-len")
        said, trainer = replace(self, **self.filled("bf16", model)), self.chosen_trainer(self.phase)
        return MemorySettings(
            phase=self.phase,
            batch_size=self.batch_size * (1 if trainer is None else trainer.sequences),
            # in decoding MemorySettings calls the tokens of the cache seq_len
            seq_len=self.past if decodes and self.past is not None else self.seq_len,
            past=0 if decodes else self.past or 0,
            source_len=self.source_len,
            dtype=said.dtype or "bf16",
            attention=self.attention,
            backend=self.backend,
            recompute=said.recompute or "none",
            grad_accum=self.grad_accum,
            optimizer=said.optimizer or "",
            loss=self.usual(model)["loss"],
            gradients=said.gradients,
            media=self.media,
            trainer=trainer,
        )

    def priced(self) -> Mapping[str, Any] | None:
        """The price of an hour by --prices. Raises ArchError where they have none of the device."""
        if self.prices is None:
            return None
        from archcli.wings.serving.devices.prices import price_of_hour  # asked for by name

        return price_of_hour(self.device, self.prices, self.price_per_hour)

    def beyond(self, priced: Mapping[str, Any] | None = None) -> PredictSettings:
        """The settings of a prediction that MemorySettings lacks.

        A trainer that fuses kernels is timed as a compiler's are, but where --fit compares plans.
        """
        trainer = trainer_named(self.trainer)
        compiled = self.compiled or (trainer is not None and trainer.fuses and self.fit is None)
        settings = replace(self, new=self.new or DEFAULT_NEW, engine=self.engine or "none", compiled=compiled)
        if priced is not None:
            settings = replace(settings, price_per_hour=priced["amount"] / priced["count"])
        return part(settings, PredictSettings)


def predict_question(loaded: Model, asking: PredictOptions) -> PredictQuestion:
    """The question about a loaded model; several devices without a plan share it by the usual plan."""
    if (asking.phase, asking.dtype) == ("train", FP8):
        raise ArchError("predict does not support training in fp8", "--dtype bf16")
    asking = as_served(asking)
    machines = Machines.of(asking.nodes, asking.network)
    known = known_device(asking.device, asking.calibrate, machines, asking.free)
    usual = known.timed.memory.usual_dtype
    model = with_method(loaded, asking.method)
    dtype = asking.dtype or asking.usual(model).get("dtype")
    model = as_asked(model, dtype, trains=asking.phase == "train")
    model, settings = replace(asking, dtype=dtype or usual).settings(model).stored(model, usual)
    settings, options, device = _run_by_engine(model, asking, settings, known)
    model, settings = with_adapters(model, settings, asking.adapters)
    model = as_converted(model, (settings.engine or NO_ENGINE).name)

    def again(**others: Any) -> MemoryQuestion:
        return that_runs(predict_question(loaded, replace(asking, **others)).memory())

    priced = options.priced()
    plan, beyond = options.devices_plan(), options.beyond(priced)
    live = LiveServer.of(load_engine(beyond.engine), known.maker, of_model(model))
    question = PredictQuestion(model, settings, device, plan, beyond, live, priced, again=again)
    draft = asking.timed_draft(loaded, settings, partial(_asked_alone, asking))
    question = replace(question, draft=draft)
    if options.fit == "devices":
        _check_chosen(plan, options)
    elif options.fit is not None:
        _check_fit_time(question, options)
        return question
    if plan == WHOLE and device.memory.n_devices > 1:
        from archcli.wings.serving.memory.answers.fit import usual_plan  # of several devices alone

        fitted = question.memory()
        shared_plan = usual_plan(fitted, device.memory.n_devices)
        question = replace(question, plan=shared_plan, known=fitted.known)
    of_known_plan(question.memory())
    return _with_offload(question, asking)


def _asked_alone(asking: PredictOptions, draft: Model) -> PredictQuestion:
    """The question about a token of the draft alone, of text."""
    changes: dict[str, Any] = {**ALONE, **TEXT, **NO_LOAD, "model": draft, "phase": "decode", "new": None}
    return predict_question(draft, replace(asking, **changes))


def _with_offload(question: PredictQuestion, options: PredictOptions) -> PredictQuestion:
    """The question with layers in RAM by --offload; unchanged without it."""
    with_it = options.with_offload(question.memory())
    offload = with_it.settings.offload
    if offload is None:
        return question
    if offload.parts:
        options.check_rates(question.device.memory)
        settings = replace(question.settings, offload=offload)
        return replace(question, settings=settings, known=with_it.known)
    from archcli.wings.serving.api.known_device.whole_runs import with_ram  # of this engine alone

    device = with_ram(question.device, offload.host, question.model)
    settings = replace(question.settings, offload=offload)
    return replace(question, settings=settings, device=device, known=with_it.known)


def _run_by_engine(
    model: Model, options: PredictOptions, settings: MemorySettings, known: KnownDevice
) -> tuple[MemorySettings, PredictOptions, PredictedDevice]:
    """The settings, options and device with the engine that is named or usual."""
    name, backend = options.engine, known.timed.backend
    # constants measured on this machine are of torch's kernels, not of an engine's
    if name is None and (options.compiled or backend is not None):
        name = "none"
    settings = replace(settings, chunk=options.chunk)
    settings = run_by_engine(settings, model, name, options.kv_dtype, known.timed.memory)
    engine = settings.engine or NO_ENGINE
    options = replace(options, engine=engine.name, chunk=settings.chunk, kv_dtype=settings.cache_dtype)
    device = known.run_by(engine, options.utilization, model, options.chunk)
    # a pass is timed as a whole: --chunk matters for memory alone. A measured device has constants of the
    # kernels that it was measured with, whatever --backend says
    backend = backend or settings.backend
    return replace(settings, chunk=None, cache_dtype=None, backend=backend), options, device


def _check_fit_time(question: PredictQuestion, options: PredictOptions) -> None:
    """Raise ArchError for what --fit time compares no plans of, and for a degree that it is to choose."""
    if question.draft is not None:
        raise ArchError("--fit time compares plans without --draft", "leave one of them out")
    if question.device.memory.unlike:
        raise ArchError("--fit time compares plans of equal devices", "leave --fit out")
    if options.offload is not None:
        raise ArchError("--fit time compares plans without --offload", "leave one of them out")
    _check_chosen(question.plan, options)


def _check_chosen(plan: Plan, options: PredictOptions) -> None:
    """Raise ArchError for a degree of parallelism that --fit is to choose."""
    degrees = [name for name in CHOSEN if getattr(plan, name) != getattr(WHOLE, name)]
    if degrees:
        listed = " and ".join(f"--{name.replace('_', '-')}" for name in degrees)
        what = f"--fit {options.fit} chooses the plan, and {listed} state{'s' * (len(degrees) == 1)} it"
        hint = f"leave {listed} out, or leave --fit out; the device 8xNAME says how many there are"
        raise ArchError(what, hint)


def predict_report(subject: Subject, question: PredictQuestion, options: PredictOptions) -> Report:
    """The report on a loaded model."""
    if options.is_loaded:
        from archcli.wings.serving.api.loaded.answer import predict_load  # of a load alone

        def ask(**changes: Any) -> PredictQuestion:
            return predict_question(subject.model, replace(options, **changes))

        report = predict_load(
            *(question, options, ask),
            fits=options.fit,
            has_curve=options.curve is not None,
        )
    else:
        report = predict_times(question, curve=options.curve, what_fits=options.fit)
    memory, device = question.memory(), question.device.memory
    engine = memory.settings.engine or NO_ENGINE
    notes = [*version_notes(engine, memory.model, memory.settings.cache_dtype, device)]
    if memory.settings.trainer is not None:
        fusing = OF_FUSING if question.options.compiled else ""
        notes.append(OF_TRAINER.format(memory.settings.trainer.title, fusing))
        notes += [OF_REFERENCE] * bool(memory.settings.trainer.reference)
    report = replace(report, notes=(*options.method_notes(memory), *report.notes, *notes))
    report = report if question.draft is None else question.draft.noted(report)
    report = with_command(options.with_arguments(report, memory), memory, subject, options)
    return subject.named(with_commands(report, "predict", subject, options), options)


@asks(PredictOptions)
def predict(options: PredictOptions) -> Report:
    """How long a pass or a training step takes on a device: the report of `archcli predict`.

    Its options are those of the command; `device` is a name such as "8xh100-sxm", `plan` are degrees of
    parallelism by name, {"tp": 4}, in place of tp=4. `totals` hold time_s and tokens_per_s, each as floor
    (the limit of the device's peaks), expected, low and high, bound_by, mfu, fits and what takes the time;
    without constants of the device there is a floor alone.
    `measured` is what was measured of the same, "1.2s" or "20tok/s": `totals` hold how it compares, and what
    would explain the gap.
    `calibrate` are files of `archcli profile --json` on this machine, to which the constants of the device
    "local" are fitted.

    Example: `predict("gpt2", "h100-sxm").totals["bound_by"]` is launch.
    """
    subject = given(options.model)
    return subject.judged(
        "predict", lambda: predict_report(subject, predict_question(subject.model, options), options)
    )
