"""The options of `archcli fit`, and the question that they make of a model or a list of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from archcli.api.asking.options import SEQ_LEN, BatchSize, Device, Engine, KvDtype, Utilization, Where
from archcli.api.asking.question import Option, tokens_option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.values import AboveZero, Interval
from archcli.modules.stored.dtypes import WeightsDtypeName
from archcli.wings.serving.api.engine import take_format
from archcli.wings.serving.api.fitting.choice import NO_OFFLOAD
from archcli.wings.serving.api.fitting.figures import with_figures
from archcli.wings.serving.api.fitting.fit_question import UNSTATED, FitQuestion
from archcli.wings.serving.api.fitting.forms import MIN_BITS
from archcli.wings.serving.api.fitting.listing import FitOrder, ListQuestion
from archcli.wings.serving.api.known_device.known import device_memory
from archcli.wings.serving.api.known_device.machines import Machines, NetworkOptions
from archcli.wings.serving.api.memory import Memory, MemoryOptions
from archcli.wings.serving.api.offload import OffloadOptions
from archcli.wings.serving.api.plan_options import Adapters, Free
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.api.programs.drafts import ALONE, DraftOptions
from archcli.wings.serving.api.programs.trainer import Command
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.predict.answers.question import PredictQuestion

Tokens = Annotated[
    AboveZero | None,
    tokens_option("Tokens of a sequence that must fit. [default: as many as fit]", "-c", SEQ_LEN),
]
Format = Annotated[
    WeightsDtypeName | None,
    Option(
        "The format of the weights: bf16, q4_k_m, awq-int4. [default: the largest that fits]",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
MinSpeed = Annotated[
    Annotated[float, Interval(gt=0)] | None,
    Option("Tokens a second that it must generate.", metavar="RATE", reads="number", completes="speeds"),
]
MinBits = Annotated[
    Annotated[float, Interval(gt=0)],
    Option(
        "Bits of a weight that the first choice has at least where that fits; models without stand last.",
        metavar="BITS",
        reads="number",
        completes="bits",
    ),
]
Order = Annotated[FitOrder, Option("Of many models, the largest or the fastest first.")]
FilesIn = Annotated[
    str | None,
    Option(
        "Ask about the GGUF files and folders of safetensors below this folder. [default: the caches of the "
        "hub, llama.cpp, LM Studio and Ollama]",
        metavar="DIR",
    ),
]
Verbose = Annotated[bool, Option("Show every format of a model, or every model of a device.")]


@dataclass(frozen=True)
class FitOptions(DraftOptions, NetworkOptions, OffloadOptions):
    """What `archcli fit` asks."""

    model: ModelLike | None = None
    device: Device = None
    memory: Memory = field(default=None, kw_only=True)
    context: Tokens = None
    dtype: Format = None
    batch_size: BatchSize = 1
    engine: Engine = None
    kv_dtype: KvDtype = None
    utilization: Utilization = None
    min_speed: MinSpeed = None
    min_bits: MinBits = MIN_BITS
    where: Where = ()
    sort: Order = "size"
    files: FilesIn = None
    verbose: Verbose = False
    free: Free = field(default=None, kw_only=True)
    command: Command = field(default=False, kw_only=True)
    adapters: Adapters = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Replace a word such as 4bit by the format that users of the engine mean by it."""
        take_format(self, self.engine)

    def question(self, subject: Subject) -> FitQuestion:
        """The question about a loaded model."""
        shared = {name: vars(self)[name] for name in SHARED}
        if self.draft is not None:
            self.check_draft()
            self.accepted()  # memory needs no share, and a speed without one would be unknown
        if self.offload is not None:
            if self.engine not in {None, "llamacpp"}:
                what = f"--offload is of llama.cpp, and the engine is {self.engine}"
                raise ArchError(what, "--engine llamacpp, or leave --offload out")
            shared["engine"] = "llamacpp"
            self.check_offload(self.device_memory(), subject.model)

        def memory(**others: Any) -> MemoryQuestion:
            options = {**shared, "phase": "serve", **others}
            return MemoryOptions(subject.model, **options).question(subject.model)

        def predict(**others: Any) -> PredictQuestion:
            options = {**shared, "network": self.network, "phase": "decode", **others}
            return predict_question(subject.model, PredictOptions(subject.model, **options))

        longest = max(subject.model.max_seq_len or UNSTATED, self.context or 0)
        ram = 0 if self.offload is None else self.host().bytes
        dtype = self.dtype or subject.dtype or None
        limits = (self.context, longest, self.min_speed, ram, self.min_bits)
        return FitQuestion(memory, predict, dtype, *limits, shared["engine"], with_figures(subject))

    def device_memory(self) -> DeviceMemory | None:
        """The memory of the device; None where none is named."""
        return device_memory(self.device, None, Machines.of(self.nodes), self.free)

    def on_device(self) -> FitOptions:
        """The options with --memory as the device. Raises ArchError for both."""
        if self.memory is None:
            return self
        if self.device is not None:
            what = "--device and --memory both say what memory there is"
            raise ArchError(what, "leave --device or --memory out")
        memory = self.memory if isinstance(self.memory, str) else f"{self.memory}B"
        return replace(self, device=memory, memory=None)


SHARED = (
    *("device", "nodes", "batch_size", "engine", "kv_dtype", "utilization", "free", "adapters"),
    *NO_OFFLOAD,
    *ALONE,
)
"""Options that memory and predict have, too."""


def list_question(options: FitOptions, what: str) -> ListQuestion:
    """The question about many models on the device of the options."""
    device = options.device_memory()
    if device is None:
        raise ArchError("fit needs a device to fit into", "archcli fit --device rtx-4090")
    options.check_offload(device)
    alone = device.n_devices == 1 or device.unlike
    name = device.name if alone else f"{device.n_devices}x{device.name}"
    in_ram = 0 if options.offload is None else options.host().bytes
    total = device.memory_bytes * device.n_devices + in_ram
    return ListQuestion(name, total, options.sort, options.context, options.min_speed, what, options.min_bits)


def inputs_of(options: FitOptions) -> dict[str, Any]:
    """The options of a question about many models, as the report holds them."""
    names = ("device", "context", "dtype", "where", "min_speed", "min_bits", "files")
    return {name: vars(options)[name] for name in names}


def question_of(options: FitOptions, model: str) -> Callable[[], FitQuestion]:
    """A function that loads a model and returns the question about it."""
    return lambda: replace(options, model=model).question(given(model))
