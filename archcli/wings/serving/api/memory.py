"""count_memory: `archcli memory` in Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.modules import takes_modules
from archcli.api.asking.options import (
    Backend,
    BatchSize,
    ChosenOptimizer,
    ChosenRecompute,
    Chunk,
    Device,
    Engine,
    GradAccum,
    Gradients,
    KvDtype,
    MediaOptions,
    Size,
    SourceLen,
    Tokens,
    Utilization,
)
from archcli.api.asking.question import Option, asks, count_option, part
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError, either
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.report import Report
from archcli.measure.weights.stored_bytes import as_asked
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.values import ZeroOrMore
from archcli.modules.stored.dtypes import WeightsDtypeName
from archcli.wings.serving.api.engine import (
    as_converted,
    run_by_engine,
    share_of,
    take_format,
    that_runs,
    version_notes,
)
from archcli.wings.serving.api.known_device.known import device_memory, known_gpus
from archcli.wings.serving.api.known_device.machines import Machines, NodesOption
from archcli.wings.serving.api.offload import OffloadOptions
from archcli.wings.serving.api.plan_options import WHOLE, Adapters, Free, PlanOptions
from archcli.wings.serving.api.programs.adapters import with_adapters
from archcli.wings.serving.api.programs.command_lines import with_command
from archcli.wings.serving.api.programs.drafts import ALONE, TEXT, DraftOptions
from archcli.wings.serving.api.programs.pasted import with_commands
from archcli.wings.serving.api.programs.trainer import TrainerOptions, of_known_plan
from archcli.wings.serving.devices.engines import runs_on
from archcli.wings.serving.launches.memory.trainer import with_method
from archcli.wings.serving.memory.answers.question import Fit, MemoryQuestion, check_question
from archcli.wings.serving.memory.answers.report import count_memory as count
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.settings import COMPUTED, AttentionForm, MemoryPhase, MemorySettings

Phase = Annotated[
    MemoryPhase | None,
    Option(
        "train: a training step; forward: a pass without a cache; prefill: a prompt; decode: one token "
        "against a full cache; serve: an engine's sequences. [default: train, on a device serving too]"
    ),
]
ComputedDtype = Annotated[
    WeightsDtypeName | None,
    Option(
        "bf16, fp16, fp32, or a format of the weights alone: q4_k_m. [default: of inference as published, "
        "else bf16]",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
Attention = Annotated[AttentionForm, Option("One kernel of any kind, torch's (sdpa), or in steps.")]
Loss = Annotated[
    str | None,
    Option(
        "Cross entropy: plain, chunked:N, fused or kernel. [default: plain, or the trainer's]",
        metavar="FORM",
        completes="losses",
    ),
]
MoreTokens = Annotated[
    ZeroOrMore, count_option("With --phase serve: tokens made of each sequence beside --seq-len.")
]
FitOption = Annotated[
    Fit | None,
    Option(
        "Find what fits: the largest batch, context or rank, the least recomputation, the fewest devices."
    ),
]
Alternatives = Annotated[
    bool, Option("Add tables of what other recomputations, optimizers, losses and attention would take.")
]


Memory = Annotated[
    Size,
    Option("Memory in place of a device: 80GiB, 24GB.", metavar="SIZE", reads="text"),
]


MEASURED = "Explain measured bytes: cache:6GiB, weights:14GiB, 21GiB in all."
MeasuredBytesOption = Annotated[str | None, Option(MEASURED, metavar="[PART:]SIZE", reads="text", rare=True)]


DEFAULT_PHASE: MemoryPhase = "train"
OF_TRAINING = ("optimizer", "recompute", "loss", "grad_accum", "gradients", "zero", "trainer", "method")
"""Options of training alone; with one of them the answer leaves serving out."""
SET_BY_ENGINE = {"cache_dtype", "past", "engine", "offload", "split", "trainer", "trained", "verifies"}
"""Fields of MemorySettings that depend on several options."""


@dataclass(frozen=True)
class MemoryOptions(DraftOptions, NodesOption, OffloadOptions, PlanOptions, MediaOptions, TrainerOptions):
    """Options of `archcli memory`."""

    model: ModelLike
    phase: Phase = None
    batch_size: BatchSize = 1
    seq_len: Tokens = None
    _: KW_ONLY
    source_len: SourceLen = None
    dtype: ComputedDtype = None
    attention: Attention = "flash"
    backend: Backend = "cuda"
    optimizer: ChosenOptimizer = None
    recompute: ChosenRecompute = None
    loss: Loss = None
    grad_accum: GradAccum = 1
    chunk: Chunk = None
    kv_dtype: KvDtype = None
    device: Device = None
    memory: Memory = None
    fit: FitOption = None
    alternatives: Alternatives = False
    engine: Engine = None
    utilization: Utilization = None
    new: MoreTokens = 0
    gradients: Gradients = None
    free: Free = None
    measured_bytes: MeasuredBytesOption = None
    adapters: Adapters = None

    def __post_init__(self) -> None:
        """Read a word such as 4bit as the users of the engine mean it."""
        phase = self.phase or DEFAULT_PHASE
        object.__setattr__(self, "engine", self.engine_in(phase, self.engine))
        take_format(self, self.engine or ("transformers" if phase == "train" else None))

    def settings(self, usual: str = COMPUTED[0], model: Model | None = None) -> MemorySettings:
        """The settings of the memory of a pass of the loaded model, with a `usual` dtype.

        Raises ArchError for values that it cannot have.
        """
        phase = self.phase or DEFAULT_PHASE
        if self.new and phase != "serve":
            what = f"--new applies to serving only, and the phase is {phase}"
            raise ArchError(what, "ask for --phase serve, or leave --new out")
        trainer = self.chosen_trainer(phase)
        filled = replace(self, **self.filled(usual, model), phase=phase)
        settings = part(filled, MemorySettings, omitted=SET_BY_ENGINE)
        sequences = 1 if trainer is None else trainer.sequences
        return replace(settings, trainer=trainer, batch_size=self.batch_size * sequences)

    def question(self, loaded: Model) -> MemoryQuestion:
        """The question about a loaded model."""
        device = device_memory(self.device, self.memory, Machines.of(self.nodes), self.free)

        def again(**options: Any) -> MemoryQuestion:
            return that_runs(replace(self, **options).question(loaded))

        usual = COMPUTED[0] if device is None else device.usual_dtype
        dtype = self.dtype or self.usual(loaded).get("dtype")
        model = as_asked(loaded, dtype, trains=(self.phase or DEFAULT_PHASE) == "train")
        model, settings = self.settings(usual, loaded).stored(with_method(model, self.method), usual)
        settings = run_by_engine(settings, model, self.engine, self.kv_dtype, device)
        model, settings = with_adapters(model, settings, self.adapters)
        model = as_converted(model, (settings.engine or NO_ENGINE).name)
        device = share_of(device, settings.engine, self.utilization)
        draft = self.held_draft(loaded, settings, self._asked_alone)
        question = MemoryQuestion(model, settings, self.devices_plan(), device, again=again, draft=draft)
        several = device is not None and device.n_devices > 1
        # --fit devices asks how many, whatever their number here
        if not (device is None or not several or question.plan != WHOLE or self.fit == "devices"):
            from archcli.wings.serving.memory.answers.fit import usual_plan  # of several devices alone

            question = replace(question, plan=usual_plan(question, device.n_devices))
        return self.with_offload(of_known_plan(question))

    def _asked_alone(self, draft: Model) -> MemoryQuestion:
        """The question about the draft alone, of text."""
        changes: dict[str, Any] = {**ALONE, **TEXT, "model": draft}
        return replace(self, **changes).question(draft)

    def serving(self, loaded: Model) -> MemoryQuestion | None:
        """The question about serving, where neither a phase nor an option of training is set; else None."""
        on_device = self.device is not None or self.memory is not None
        of_training = any(getattr(self, name) != getattr(MemoryOptions, name) for name in OF_TRAINING)
        if self.phase is not None or self.fit is not None or of_training or not (on_device and loaded.caches):
            return None
        # a plan or a cache of training may be none of serving
        with suppress(ArchError):
            question = replace(self, phase="serve").question(loaded)
            check_question(question)
            return question
        return None


def memory_report(
    subject: Subject,
    question: MemoryQuestion,
    options: MemoryOptions,
    tell: Callable[[str], None] = lambda attempt: None,  # noqa: ARG005
) -> Report:
    """The report on a loaded model; `tell` receives a text for each attempt to find what fits."""
    serving = options.serving(subject.model)
    report = count(
        question,
        what_fits=options.fit,
        show_alternatives=options.alternatives,
        tell=tell,
        # reads a file for each device of the package, so only where the fewest devices are looked for
        devices=_gpus(question, options) if options.fit == "devices" and question.device is None else (),
        serving=serving,
        measured=_measured(options.measured_bytes),
    )
    settings = question.settings
    engine = settings.engine or NO_ENGINE
    notes = version_notes(engine, question.model, settings.cache_dtype, question.device)
    report = replace(report, notes=(*options.method_notes(question), *report.notes, *notes))
    report = options.with_arguments(report, question)
    report = with_command(report, serving or question, subject, options)
    return subject.named(with_commands(report, "memory", subject, options), options)


def _measured(text: str | None) -> tuple[str, int] | None:
    """The part and the bytes of `cache:5.98GiB`, of `80GiB` alone all. Raises ArchError for others."""
    if text is None:
        return None
    from archcli.wings.serving.devices.budget import size_of  # of measured bytes alone
    from archcli.wings.serving.memory.answers.measured_bytes import LEFT

    part, _, size = text.rpartition(":")
    if part not in {"", *LEFT}:
        raise ArchError(
            f"--measured-bytes {text}: {part} is no part", f"{either(list(LEFT))}, as cache:5.98GiB"
        )
    return part or "all", size_of("--measured-bytes", size)


def _gpus(question: MemoryQuestion, options: MemoryOptions) -> tuple[DeviceMemory, ...]:
    """All known GPUs, each with the memory that the question's engine takes."""
    engine = question.settings.engine or NO_ENGINE
    there = (gpu for gpu in known_gpus() if runs_on(engine.name, gpu.platform))
    return tuple(gpu.taken_by(engine, options.utilization) for gpu in there)


@takes_modules("memory")
@asks(MemoryOptions)
def count_memory(options: MemoryOptions) -> Report:
    """Memory of a training step or of inference: the report of `archcli memory`, whose options these are.

    `plan` are degrees of parallelism by name, {"dp": 8, "zero": 3}, in place of dp=8, zero=3. `device` is a
    name such as "8xh100-sxm", `memory` a size such as "80GiB". `totals` hold peak_bytes, moment, parts,
    beyond_bytes, kept_bytes, ranks and fits.

    A torch.nn.Module and its inputs may stand in place of a model: `count_memory(module, x)`.

    Example: `count_memory("gpt2", "decode", seq_len=1024).totals["parts"]["weights"]` is 248,879,616.
    """
    subject = given(options.model)
    return subject.judged("memory", lambda: memory_report(subject, options.question(subject.model), options))
