"""count_memory: `archcli memory` in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.device import device_memory, known_gpus
from archcli.api.asking.options import (
    Backend,
    BatchSize,
    Chunk,
    Device,
    GradAccum,
    KvDtype,
    Recompute,
    SourceLen,
    Tokens,
)
from archcli.api.asking.plan_options import WHOLE, PlanOptions
from archcli.api.asking.question import Option, asks, part
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.measure.memory.answers.question import Fit, MemoryQuestion
from archcli.measure.memory.answers.report import count_memory as count
from archcli.measure.memory.settings import AttentionForm, MemoryPhase, MemorySettings
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import DtypeName, memory_bytes
from archcli.modules.spec.values import Conversion
from archcli.modules.stored.formats import cache_bytes

Phase = Annotated[
    MemoryPhase,
    Option(
        "train: a training step; forward: a pass without a cache, as of an encoder; prefill: a prompt; "
        "decode: one token against a full cache; serve: an engine that serves sequences."
    ),
]
ComputedDtype = Annotated[
    DtypeName,
    Option(
        "Of weights and activations: bf16, fp16, fp32; or a format of the weights alone: q4_k_m, nf4-double.",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
Attention = Annotated[AttentionForm, Option("torch's fused kernel (flash, sdpa), or step by step.")]
Optimizer = Annotated[
    str,
    Option(
        "adamw, adamw-fused, adamw-mixed, sgd, sgd-momentum, adafactor, adam8bit or muon.", metavar="NAME"
    ),
]
Loss = Annotated[str, Option("plain, chunked:N or fused cross entropy.", metavar="FORM")]
FitOption = Annotated[
    Fit | None,
    Option("Find what fits: the largest batch or context, the least recomputation, the fewest devices."),
]
Alternatives = Annotated[
    bool, Option("Add tables of what other recomputations, optimizers, losses and attention would take.")
]


def _memory(value: Any) -> str | int:
    """A size as it is written, or bytes."""
    return value if isinstance(value, str) else memory_bytes(value)


Memory = Annotated[
    str | int | None,
    Conversion("bytes", _memory),
    Option("Memory in place of a device: 80GiB, 24GB.", metavar="SIZE", reads="text"),
]


OF_SERVING = {"cache_dtype", "past", "served"}
"""Fields of MemorySettings that predict and serving set."""


@dataclass(frozen=True)
class MemoryOptions(PlanOptions):
    """What `archcli memory` asks."""

    model: ModelLike
    phase: Phase = "train"
    batch_size: BatchSize = 1
    seq_len: Tokens = None
    _: KW_ONLY
    source_len: SourceLen = None
    dtype: ComputedDtype = "bf16"
    attention: Attention = "flash"
    backend: Backend = "cuda"
    optimizer: Optimizer = "adamw"
    recompute: Recompute = "none"
    loss: Loss = "plain"
    grad_accum: GradAccum = 1
    chunk: Chunk = None
    kv_dtype: KvDtype = None
    device: Device = None
    memory: Memory = None
    fit: FitOption = None
    alternatives: Alternatives = False

    def settings(self) -> MemorySettings:
        """What the memory of a pass depends on. Raises ArchError for values that it cannot have."""
        settings = part(self, MemorySettings, beside=OF_SERVING)
        if self.kv_dtype is None:
            return settings
        if self.phase != "serve":
            what = f"--kv-dtype is of an engine's cache, and the phase is {self.phase}"
            raise ArchError(what, "ask for --phase serve, or leave --kv-dtype out")
        cache_bytes(1, self.kv_dtype)  # refuses what no engine keeps
        return replace(settings, cache_dtype=self.kv_dtype)

    def question(self, model: Model) -> MemoryQuestion:
        """The question about a loaded model."""
        device = device_memory(self.device, self.memory)
        question = MemoryQuestion(*self.settings().stored(model), self.devices_plan(), device)
        several = device is not None and device.n_devices > 1
        # --fit devices asks how many, whatever their number here
        if device is None or not several or question.plan != WHOLE or self.fit == "devices":
            return question
        from archcli.measure.memory.answers.fit import usual_plan  # of several devices alone

        return replace(question, plan=usual_plan(question, device.n_devices))


def memory_report(
    subject: Subject,
    question: MemoryQuestion,
    options: MemoryOptions,
    tell: Callable[[str], None] = lambda attempt: None,  # noqa: ARG005
) -> Report:
    """The report on a loaded model; `tell` receives a text for each attempt to find what fits."""
    report = count(
        question,
        what_fits=options.fit,
        show_alternatives=options.alternatives,
        tell=tell,
        # reads a file for each device of the package, so only where the fewest devices are looked for
        devices=known_gpus() if options.fit == "devices" and question.device is None else (),
    )
    return subject.named(report)


@asks(MemoryOptions)
def count_memory(options: MemoryOptions) -> Report:
    """Memory of a training step or of inference: the report of `archcli memory`, whose options these are.

    `plan` are degrees of parallelism by name, {"dp": 8, "zero": 3}, in place of dp=8, zero=3. `device` is a
    name such as "8xh100-sxm", `memory` a size such as "80GiB". `totals` hold peak_bytes, moment, parts,
    beyond_bytes, kept_bytes, ranks and fits.

    Example: `count_memory("gpt2", "decode", seq_len=1024).totals["parts"]["weights"]` is 248,879,616.
    """
    subject = given(options.model)
    return memory_report(subject, options.question(subject.model), options)
