"""PredictQuestion: a model, its settings, plan and devices; and what has no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.graph.kept import Backend
from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.plan import ONE_DEVICE, Plan
from archcli.measure.memory.settings import COMPUTED, MemorySettings
from archcli.measure.predict.prediction import Prediction, predict_pass
from archcli.measure.predict.rank.kernels import CacheForm, CacheReads, CacheUse
from archcli.measure.predict.rank.rank_times import TimingDevice
from archcli.measure.predict.serving import (
    ENGINES,
    FP8,
    EngineName,
    ServedTokens,
    at_peak_of_fp8,
    in_fp8,
    serve,
    with_engine,
)
from archcli.modules import Model
from archcli.modules.spec.values import AboveZero, Interval, check_values

DEFAULT_NEW = 128
"""Tokens that serving makes of each sequence, where nobody says how many."""
Curve = Literal["batch", "context", "devices"]
"""What a curve changes from point to point."""
FitTime = Literal["time"]
Price = Annotated[float, Interval(ge=0, le=1e9)]
"""Of an hour of a device, in any currency."""


class PredictedDevice(NamedTuple):
    """A kind of device to predict for: how many, their times and memory, and their power in W if known.

    `backend` says whose kernels run on it, None where that is asked apart.
    """

    timing: TimingDevice
    memory: DeviceMemory
    tdp_w: float | None = None
    backend: Backend | None = None

    @property
    def name(self) -> str:
        """Its name, as `archcli devices` has it."""
        return self.memory.name


@dataclass(frozen=True, slots=True)
class PredictSettings:
    """Settings of a prediction that `MemorySettings` does not have.

    `dtype` fp8 has matrix products and cache in fp8, and all else in bf16; `kv_dtype` is that of an engine's
    cache where it is another. `new` are the tokens that serving
    makes of each sequence, `tokens` those of a whole training, `price_per_hour` that of one device. A
    `compiled` pass runs the groups that torch's compiler fuses its kernels into. Values that a field does not
    accept are an ArchError.
    """

    new: AboveZero = DEFAULT_NEW
    engine: EngineName = "none"
    kv_read: CacheReads = "groups"
    kv_dtype: str | None = None
    dtype: str = "bf16"
    tokens: AboveZero | None = None
    price_per_hour: Price | None = None
    compiled: bool = False

    def __post_init__(self) -> None:
        check_values("predict", self)


class PredictAnswer(NamedTuple):
    """A prediction, and of serving its first token and the others."""

    prediction: Prediction
    served: ServedTokens | None = None


@dataclass(frozen=True, slots=True)
class PredictQuestion:
    """What is asked: how long a model takes with these settings and this plan on a device."""

    model: Model
    settings: MemorySettings
    device: PredictedDevice
    plan: Plan = ONE_DEVICE
    asked: PredictSettings = field(default_factory=PredictSettings)

    @property
    def phase(self) -> str:
        """train, forward, prefill, decode or serve."""
        return self.settings.phase

    @property
    def caches(self) -> bool:
        """Whether it leaves a cache for the next token."""
        return self.phase not in {"train", "forward"}

    @property
    def is_served(self) -> bool:
        """Whether an engine runs it, which writes into a cache that is there."""
        return self.phase == "serve" or (self.caches and self.asked.engine != "none")

    @property
    def new_tokens(self) -> int:
        """Tokens that serving makes of each sequence; 0 of another phase."""
        return self.asked.new if self.phase == "serve" else 0

    @property
    def cache(self) -> CacheUse:
        """How the pass uses the cache."""
        low = FP8 if self.asked.dtype == FP8 else ""
        form: CacheForm = "in_place" if self.is_served else "grown"
        return CacheUse(form, self.asked.kv_read, low, self.asked.kv_dtype or low)

    def answer(self) -> PredictAnswer:
        """Predict it. Raises ArchError for what cannot be predicted."""
        engine, timing = ENGINES[self.asked.engine], self.timing
        if self.phase == "serve":
            served = serve(self.model, self.settings, self.asked.new, timing, self.plan, self.cache, engine)
            return PredictAnswer(self._of_peak(served.whole), served)
        compiled = self.asked.compiled
        alone = predict_pass(self.model, self.settings, timing, self.plan, self.cache, compiled=compiled)
        return PredictAnswer(self._of_peak(alone._replace(seconds=with_engine(alone.seconds, engine))))

    @property
    def timing(self) -> TimingDevice:
        """The device with the constants of the dtype."""
        return in_fp8(self.device.timing) if self.asked.dtype == FP8 else self.device.timing

    def _of_peak(self, prediction: Prediction) -> Prediction:
        return at_peak_of_fp8(prediction, self.timing) if self.asked.dtype == FP8 else prediction

    def memory(self) -> MemoryQuestion:
        """What memory is asked: of serving with all its tokens in the cache."""
        settings, model = self.settings, self.model
        if self.is_served:
            settings = self._as_served(settings.tokens(model))
        if self.asked.dtype == FP8:
            model = in_eight_bits(model)
        if settings.phase == "serve":
            settings = replace(settings, cache_dtype=self.cache.cache_dtype or None)
        return MemoryQuestion(model, settings, self.plan, self.device.memory)

    def _as_served(self, tokens: Number) -> MemorySettings:
        """What an engine holds: all tokens in the cache, and the prefill of those that are not there yet."""
        past = self.settings.past
        chunk = int(tokens) if past else None
        longest = past + tokens + self.new_tokens or 1  # with nothing before it, the decoded token itself
        return replace(self.settings, phase="serve", seq_len=longest, past=0, chunk=chunk)

    def changed(self, **settings: Any) -> PredictQuestion:
        """The same with other settings of memory's."""
        return replace(self, settings=replace(self.settings, **settings))


def in_eight_bits(model: Model) -> Model:
    """The model with its projections stored in 8 bits, unless it states how they are stored."""
    if model.quantization is not None:
        return model
    from archcli.modules.stored.quantization import Quantization  # of fp8 alone

    return model.replace(quantization=Quantization(bits=8))


DTYPES = (*COMPUTED, FP8)
OF_INFERENCE = {"engine": "--engine", "kv_read": "--kv-read"}
DEFAULTS = PredictSettings()


def check_prediction(question: PredictQuestion) -> None:
    """Raise ArchError with all that options of `predict` contradict."""
    problems = list(_problems(question))
    if problems:
        raise ArchError(problems)


def _problems(question: PredictQuestion) -> Iterator[Problem]:
    asked, phase = question.asked, question.phase
    if asked.dtype not in DTYPES:
        yield Problem(f"predict does not support dtype {asked.dtype}", f"one of {', '.join(DTYPES)}")
    if asked.compiled:
        yield from _of_compiled(question)
    yield from _of_cache(question)
    if phase == "train":
        if asked.dtype == FP8:
            yield Problem("predict does not support training in fp8", "--dtype bf16")
    elif asked.tokens is not None:
        yield Problem(f"--tokens applies to training only, and the phase is {phase}", "ask for --phase train")
    if phase != "serve" and asked.new != DEFAULT_NEW:
        hint = "ask for --phase serve" if question.model.caches else "leave --new out"
        yield Problem(f"--new applies to serving only, and the phase is {phase}", hint)


def _of_cache(question: PredictQuestion) -> Iterator[Problem]:
    """Options of a cache or an engine where there is none."""
    asked, phase = question.asked, question.phase
    if not question.caches:
        for name, option in OF_INFERENCE.items():
            if getattr(asked, name) != getattr(DEFAULTS, name):
                what = f"{option} applies to inference with a cache only, and the phase is {phase}"
                yield Problem(what, f"leave {option} out")
    if asked.kv_dtype is not None and not question.is_served:
        what = f"--kv-dtype is of an engine's cache, and the phase is {phase} without an engine"
        yield Problem(what, "ask for --phase serve or --engine, or leave --kv-dtype out")


def _of_compiled(question: PredictQuestion) -> Iterator[Problem]:
    """Problems of a compiled pass with an engine, with several devices, or with recomputation."""
    if question.is_served:
        yield Problem(
            "--compile is of the model itself, not of an engine", "--phase prefill or decode without --engine"
        )
    if question.plan.devices > 1:
        yield Problem("--compile is predicted for one device alone", "leave --compile out")
    if question.settings.recompute != "none":
        what = "--compile is predicted without --recompute"
        yield Problem(what, "leave --compile or --recompute out")
