"""PredictQuestion: a model, its settings, plan and devices; and the checks of a question."""

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
"""Tokens that serving generates for each sequence, unless --new says how many."""
Curve = Literal["batch", "context", "devices"]
"""What a curve changes from point to point."""
FitTime = Literal["time"]
Price = Annotated[float, Interval(ge=0, le=1e9)]
"""The price of a device for an hour, in any currency."""


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

    new: tokens that serving generates for each sequence.
    engine: the engine whose measured speed scales the times.
    kv_read: how the kernel of a decoded token reads grouped keys and values.
    dtype: fp8 has matrix products and cache in fp8, and all else in bf16.
    kv_dtype: of an engine's cache, where it is another.
    tokens: those of a whole training.
    price_per_hour: of one device.
    compiled: run the groups into which torch's compiler fuses the kernels.

    Raises ArchError for a value that a field does not accept.
    """

    new: AboveZero = DEFAULT_NEW
    engine: EngineName = "none"
    kv_read: CacheReads = "groups"
    dtype: str = "bf16"
    tokens: AboveZero | None = None
    price_per_hour: Price | None = None
    compiled: bool = False
    kv_dtype: str | None = None

    def __post_init__(self) -> None:
        check_values("predict", self)


class PredictAnswer(NamedTuple):
    """A prediction; of serving also the first token and the others apart."""

    prediction: Prediction
    served: ServedTokens | None = None


@dataclass(frozen=True, slots=True)
class PredictQuestion:
    """The question how long a model takes with these settings and this plan on a device."""

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
        """Whether the pass leaves a cache for the next token."""
        return self.phase not in {"train", "forward"}

    @property
    def is_served(self) -> bool:
        """Whether an engine runs the pass, which writes into a cache allocated before."""
        return self.phase == "serve" or (self.caches and self.asked.engine != "none")

    @property
    def new_tokens(self) -> int:
        """Tokens that serving generates for each sequence; 0 in another phase."""
        return self.asked.new if self.phase == "serve" else 0

    @property
    def cache(self) -> CacheUse:
        """How the pass uses the cache."""
        low = FP8 if self.asked.dtype == FP8 else ""
        form: CacheForm = "in_place" if self.is_served else "grown"
        return CacheUse(form, self.asked.kv_read, low, self.asked.kv_dtype or low)

    def answer(self) -> PredictAnswer:
        """The prediction. Raises ArchError for what cannot be predicted."""
        engine, timing = ENGINES[self.asked.engine], self.timing
        if self.phase == "serve":
            served = serve(self.model, self.settings, self.asked.new, timing, self.plan, self.cache, engine)
            return PredictAnswer(self._of_peak(served.whole), served)
        compiled = self.asked.compiled
        one_pass = predict_pass(self.model, self.settings, timing, self.plan, self.cache, compiled=compiled)
        with_overhead = one_pass._replace(seconds=with_engine(one_pass.seconds, engine))
        return PredictAnswer(self._of_peak(with_overhead))

    @property
    def timing(self) -> TimingDevice:
        """The device with the constants of the dtype."""
        return in_fp8(self.device.timing) if self.asked.dtype == FP8 else self.device.timing

    def _of_peak(self, prediction: Prediction) -> Prediction:
        return at_peak_of_fp8(prediction, self.timing) if self.asked.dtype == FP8 else prediction

    def memory(self) -> MemoryQuestion:
        """The question whether it fits; a served model has all its tokens in the cache."""
        settings, model = self.settings, self.model
        if self.is_served:
            settings = self._as_served(settings.tokens(model))
        if self.asked.dtype == FP8:
            model = in_eight_bits(model)
        if settings.phase == "serve":
            settings = replace(settings, cache_dtype=self.cache.cache_dtype or None)
        return MemoryQuestion(model, settings, self.plan, self.device.memory)

    def _as_served(self, tokens: Number) -> MemorySettings:
        """The settings of an engine: all tokens in the cache, and the prefill of those not yet in it."""
        past = self.settings.past
        chunk = int(tokens) if past else None
        longest = past + tokens + self.new_tokens or 1  # with nothing before it, the decoded token itself
        return replace(self.settings, phase="serve", seq_len=longest, past=0, chunk=chunk)

    def changed(self, **settings: Any) -> PredictQuestion:
        """This question with some fields of its `MemorySettings` replaced."""
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
    """Raise ArchError with every contradiction between options of `predict`."""
    problems = list(_problems(question))
    if problems:
        raise ArchError(problems)


def _problems(question: PredictQuestion) -> Iterator[Problem]:
    settings, phase = question.asked, question.phase
    if settings.dtype not in DTYPES:
        yield Problem(f"predict does not support dtype {settings.dtype}", f"one of {', '.join(DTYPES)}")
    if settings.compiled:
        yield from _of_compiled(question)
    yield from _of_cache(question)
    if phase == "train":
        if settings.dtype == FP8:
            yield Problem("predict does not support training in fp8", "--dtype bf16")
    elif settings.tokens is not None:
        yield Problem(f"--tokens applies to training only, and the phase is {phase}", "ask for --phase train")
    if phase != "serve" and settings.new != DEFAULT_NEW:
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
    """Problems of a compiled pass with an engine, with stages, or with recomputation."""
    if question.is_served:
        yield Problem(
            "--compile is of the model itself, not of an engine", "--phase prefill or decode without --engine"
        )
    if question.plan.pp > 1:
        # fused kernels cross the layers at which stages are cut
        yield Problem("--compile is predicted without --pp", "leave --compile or --pp out")
    if question.settings.recompute != "none":
        what = "--compile is predicted without --recompute"
        yield Problem(what, "leave --compile or --recompute out")
