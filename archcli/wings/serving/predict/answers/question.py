"""PredictQuestion: a model, its settings, plan and devices; and the checks of a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.graph.kept import Backend
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.modules import Model
from archcli.modules.spec.arguments import EngineName, PaceText
from archcli.modules.spec.values import AboveZero, Interval, check_values
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import ONE_DEVICE, DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.answers.drafts import DraftRound, Speculation
from archcli.wings.serving.predict.communication.collective import LinkName
from archcli.wings.serving.predict.constants import Efficiency
from archcli.wings.serving.predict.engine_kernels.choice import BORROWED
from archcli.wings.serving.predict.live import PASS, TOKEN, LiveServer, Load
from archcli.wings.serving.predict.prediction import Prediction, predict_pass
from archcli.wings.serving.predict.rank.host import COMPILED, EAGER
from archcli.wings.serving.predict.rank.kernels import CacheForm, CacheReads, CacheUse
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.serving import (
    Engine,
    ServedTokens,
    at_peak,
    engine_of,
    in_fewer_bits,
    predict_prompt,
    serve,
    with_engine,
)

if TYPE_CHECKING:
    from archcli.wings.serving.predict.engine_kernels.clock import EngineClock

DEFAULT_NEW = 128
"""Tokens that serving generates for each sequence, unless --new says how many."""
Curve = Literal["batch", "context", "devices", "rate"]
"""What a curve changes from point to point; the rate under a load alone."""
FitTime = Literal["time", "devices"]
"""What a prediction looks for: the fastest plan, or under a load the fewest devices that meet targets."""
Price = Annotated[float, Interval(ge=0, le=1e9)]
"""The price of a device for an hour, in any currency."""


def _nothing_measured(engine: str) -> None:
    """The kernels of an engine on a device on which nobody measured any."""


class PredictedDevice(NamedTuple):
    """A kind of device to predict for: how many, their times and memory, and their power in W if known.

    `backend` says whose kernels run on it, None where that is asked apart. `kernels_of` an engine are those
    that were measured on it or on its like. `timed_as` are the engine's versions that its constants are of.
    """

    timing: TimingDevice
    memory: DeviceMemory
    tdp_w: float | None = None
    backend: Backend | None = None
    kernels_of: Callable[[str], EngineClock | None] = _nothing_measured
    timed_as: str = ""

    @property
    def name(self) -> str:
        """Its name, as `archcli devices` has it."""
        return self.memory.name

    @property
    def limit_w(self) -> float | None:
        """The power limit of a GPU in W; None of unlike devices and of all others: none was measured."""
        platform = self.memory.platform
        of_gpu = platform.startswith(("sm_", "gfx")) or platform.endswith(" gpu")
        return self.tdp_w if of_gpu and not self.memory.unlike else None


@dataclass(frozen=True, slots=True)
class PredictSettings:
    """Settings of a prediction that `MemorySettings` does not have.

    new: tokens that serving generates for each sequence.
    engine: the engine whose measured speed scales the times.
    kv_read: how the kernel of a decoded token reads grouped keys and values.
    kv_dtype: of an engine's cache, where it is another than the model's.
    chunk: tokens of a prefill that run at a time, of which memory depends.
    tokens: those of a whole training.
    price_per_hour: of one device.
    compiled: run the groups into which torch's compiler fuses the kernels.
    measured: what somebody measured of the same, a time such as 1.2s or a rate such as 20tok/s.
    grid: grams of CO2 of a kWh, 400g/kWh.

    Raises ArchError for a value that a field does not accept.
    """

    new: AboveZero = DEFAULT_NEW
    engine: EngineName = "none"
    kv_read: CacheReads = "groups"
    tokens: AboveZero | None = None
    price_per_hour: Price | None = None
    compiled: bool = False
    kv_dtype: str | None = None
    chunk: AboveZero | None = None
    measured: PaceText | None = None
    grid: str | None = None

    def __post_init__(self) -> None:
        check_values("predict", self)


class PredictAnswer(NamedTuple):
    """A prediction; of serving also the first token and the others apart."""

    prediction: Prediction
    served: ServedTokens | None = None


@dataclass(frozen=True, slots=True)
class PredictQuestion:
    """The question how long a model takes with these settings and this plan on a device.

    `live` are the constants of the engine's live servers, where any were measured. `priced` says whose the
    price of an hour is, and of which day; None where it is stated. `known` keeps the traced passes of its
    memory; `again` asks for the memory with other options. `draft` is that of speculative decoding.
    """

    model: Model
    settings: MemorySettings
    device: PredictedDevice
    plan: Plan = ONE_DEVICE
    options: PredictSettings = field(default_factory=PredictSettings)
    live: LiveServer | None = None
    priced: Mapping[str, Any] | None = None
    known: TracedModel | None = field(default=None, compare=False, repr=False)
    again: Callable[..., MemoryQuestion] | None = field(default=None, compare=False, repr=False)
    draft: Speculation | None = None
    _memory: list[MemoryQuestion] = field(default_factory=list, init=False, compare=False, repr=False)

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
        """Whether the pass writes into a cache allocated before, as engines do."""
        return self.settings.served

    @property
    def new_tokens(self) -> int:
        """Tokens that serving generates for each sequence; 0 in another phase."""
        return self.options.new if self.phase == "serve" else 0

    @property
    def cache(self) -> CacheUse:
        """How the pass uses the cache."""
        form: CacheForm = "in_place" if self.is_served else "grown"
        return CacheUse(form, self.options.kv_read, self.options.kv_dtype or "", self.native)

    @property
    def native(self) -> str:
        """The dtype in which the device multiplies packed matrices; empty where products unpack them."""
        stored, peaks = self.model.quantization, self.device.timing.clock.rates.peaks
        # constants of whole runs are of products that unpack, whatever they compute in
        unpacks = self.phase == "train" or self.device.timing.whole_runs is not None
        product = None if stored is None or unpacks else stored.product
        return product.runs_in if product is not None and {*product} <= peaks.keys() else ""

    @property
    def timed(self) -> MemorySettings:
        """The settings of what runs: with the type in which a trainer's autocast computes."""
        settings, peaks = self.settings, self.device.timing.clock.rates.peaks
        autocast = "" if settings.trainer is None else settings.trainer.autocast
        computes = [dtype for dtype in (autocast, "fp16") if autocast and dtype in peaks]
        if settings.dtype != "fp32" or not computes:
            return settings
        return replace(settings, dtype=computes[0], trained=settings.trained or settings.dtype)

    @property
    def multiplied(self) -> str:
        """The dtype in which most products run."""
        return self.native or self.timed.dtype

    def answer(self) -> PredictAnswer:
        """The prediction. Raises ArchError for what cannot be predicted."""
        timing = self.timing
        answer = self._timed_on(timing, self.draft)
        if answer.prediction.seconds.is_calibrated or not timing.has_constants(self.timed.dtype):
            return answer
        # rows as expected beside a total at the limit would be times of two kinds
        return self._timed_on(timing.at_limit(drops_runs=True), self.draft and self.draft.at_limit())

    def draft_round(self, batch_size: int, context: int) -> DraftRound | None:
        """A round of sequences with so many tokens: `seconds` and `tokens` of each; None without a draft.

        The seconds are those of kernels, as of a predicted pass, without what the engine does beside them.
        """
        if self.draft is None:
            return None
        settings = replace(self.settings, phase="decode", batch_size=batch_size, seq_len=context)
        return self.draft.round(self.model, settings, self.timing, self.plan, self.cache)

    def _drafted(self, settings: MemorySettings, timing: TimingDevice, draft: Speculation) -> Prediction:
        """A token of each sequence, or the prefill, with a draft."""
        arguments = (self.model, settings, timing, self.plan, self.cache)
        if settings.phase == "decode":
            return draft.round(*arguments).token
        return draft.with_prompt(self.model, settings, self.plan, predict_prompt(*arguments))

    def _timed_on(self, timing: TimingDevice, draft: Speculation | None) -> PredictAnswer:
        engine, plan = self.engine, self.plan
        drafted = None if draft is None else lambda settings: self._drafted(settings, timing, draft)
        if self.phase == "serve":
            engine = engine._replace(at_once=self._at_once())
            sizes = (self.model, self.settings, self.options.new)
            served = serve(*sizes, timing, plan, self.cache, engine, drafted=drafted)
            return PredictAnswer(self._of_peak(served.whole), served)
        compiled = self.options.compiled
        arguments = (self.model, self.timed, timing, self.plan, self.cache)
        if drafted is not None:
            one_pass = drafted(self.settings)
        elif self.phase == "prefill" and timing.chunk is not None:
            one_pass = predict_prompt(*arguments)
        else:
            one_pass = predict_pass(*arguments, compiled=compiled, known=self.known)
        with_overhead = one_pass._replace(seconds=with_engine(one_pass.seconds, engine, self._timed))
        return PredictAnswer(self._of_peak(with_overhead))

    @property
    def _timed(self) -> tuple[str, Load]:
        """What is timed of a pass, of serving a token, and under which load where none wait."""
        sequences = int(self.plan.of_replica(self.settings).batch_size)
        what = TOKEN if self.phase in {"decode", "serve"} else PASS
        return what, "one" if sequences == 1 else "several"

    def is_timed(self, *, queues: bool = False) -> bool:
        """Whether live servers of the engine, if it has any, were timed with such a load and model."""
        what, load = self._timed
        return self.live is None or self.live.error(what, "full" if queues else load) is not None

    def _at_once(self) -> int:
        """Sequences that a live server runs at once: as many as it takes, and as its cache has room for.

        All of them where there is no room for one: then all times are as if there were.
        """
        sequences = int(self.settings.batch_size)
        if self.engine.live is None:
            return sequences
        most = (self.settings.engine or NO_ENGINE).max_sequences
        taken = min(sequences, self.plan.dp * most) if most else sequences
        memory = self.memory()
        if memory.changed(batch_size=taken).fits():
            return taken
        from archcli.wings.serving.memory.answers.fit import most_sequences  # of what does not fit alone

        return most_sequences(memory, taken) or taken

    @property
    def timing(self) -> TimingDevice:
        """The device with the constants of the dtype; with the engine's kernels, or the launching host."""
        timing = self.device.timing
        return self._run_on(timing)._replace(unlike=tuple(map(self._run_on, timing.unlike)))

    def _run_on(self, timing: TimingDevice) -> TimingDevice:
        kernels = self.engine_kernels
        if self.unknown_link or not self.is_timed():
            timing, kernels = timing.at_limit(drops_runs=not self.settings.splits_layers), None
        if not self.settings.served:
            timing = timing._replace(host=COMPILED if self.options.compiled else EAGER)
        if kernels is not None:
            of_device = timing.clock.efficiency
            efficiency = Efficiency(kernels.products) if kernels.products else of_device
            clock = timing.clock._replace(engine=kernels, efficiency=efficiency)
            timing = timing._replace(clock=clock)
        return in_fewer_bits(timing, self.native) if self.native else timing

    @property
    def unknown_link(self) -> LinkName | None:
        """The link that the plan needs and whose rate is not known; then there is a limit alone."""
        plan, timing = self.plan, self.device.timing
        replicas_send = self.phase == "train" or plan.pp > 1
        ranks = plan.devices if replicas_send else max(plan.tp, plan.ep)
        links = (card.fabric.unknown(ranks) for card in timing.unlike or (timing,))
        return next(filter(None, links), None)

    @property
    def engine(self) -> Engine:
        """The engine that runs the pass; with another device's kernels its range is wider."""
        kernels = self.engine_kernels
        runs, options = self.device.timing.whole_runs is not None, self.options
        engine = engine_of(options.engine, options.kv_read, self.live, of_whole_runs=runs)
        if engine.live is None or (kernels is not None and not (kernels.lender or kernels.products)):
            return engine
        return engine._replace(live=engine.live._replace(widened=BORROWED))

    @property
    def engine_title(self) -> str:
        """The name of the engine in a sentence."""
        return (self.settings.engine or NO_ENGINE).title

    @property
    def engine_kernels(self) -> EngineClock | None:
        """The measured kernels of the engine; those that read a cache once per query head are older.

        None where live servers of the kind were not timed: then there is a limit alone.
        """
        if not (self.settings.served and self.is_timed()) or self.options.kv_read == "heads":
            return None
        return self.device.kernels_of(self.options.engine)

    def _of_peak(self, prediction: Prediction) -> Prediction:
        return at_peak(prediction, self.timing, self.native) if self.native else prediction

    def memory(self) -> MemoryQuestion:
        """The question whether it fits, as `archcli memory` asks it; the same each time."""
        if not self._memory:
            self._memory.append(self._asked_of_memory())
        return self._memory[0]

    def _asked_of_memory(self) -> MemoryQuestion:
        settings, model = self.settings, self.model
        if settings.served:
            cache_dtype, chunk = self.cache.cache_dtype or None, None
            if settings.phase != "decode":
                chunk = self.options.chunk
            settings = replace(settings, cache_dtype=cache_dtype, chunk=chunk, new=self.new_tokens)
        held = None if self.draft is None else self.draft.held
        return MemoryQuestion(model, settings, self.plan, self.device.memory, self.known, self.again, held)

    def changed(self, **settings: Any) -> PredictQuestion:
        """This question with some fields of its `MemorySettings` replaced."""
        return replace(self, settings=replace(self.settings, **settings))


DEFAULTS = PredictSettings()


def check_prediction(question: PredictQuestion) -> None:
    """Raise ArchError with every contradiction between options of `predict`."""
    problems = list(_problems(question))
    if problems:
        raise ArchError(problems)


def _problems(question: PredictQuestion) -> Iterator[Problem]:
    settings, phase = question.options, question.phase
    if settings.compiled:
        yield from _of_compiled(question)
    if settings.kv_read != DEFAULTS.kv_read and not question.caches:
        what = f"--kv-read applies to inference with a cache only, and the phase is {phase}"
        yield Problem(what, "leave --kv-read out")
    if question.settings.engine and question.settings.engine.adapters and not question.is_served:
        what = f"how {question.engine_title} runs several adapters at once is not known"
        yield Problem(what, "--engine vllm, or leave --adapters out")
    if phase != "train" and settings.tokens is not None:
        yield Problem(f"--tokens applies to training only, and the phase is {phase}", "ask for --phase train")
    if phase != "serve" and settings.new != DEFAULT_NEW:
        hint = "ask for --phase serve" if question.model.caches else "leave --new out"
        yield Problem(f"--new applies to serving only, and the phase is {phase}", hint)


def _of_compiled(question: PredictQuestion) -> Iterator[Problem]:
    """Problems of a compiled pass with an engine."""
    if question.is_served or question.phase == "serve":
        hint = "--phase prefill or decode with --engine none"
        yield Problem("--compile is of the model itself, not of an engine", hint)
