"""The questions of one model about many devices, put together once for devices that run alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, TypeVar, get_args

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.modules import Model
from archcli.modules.spec.arguments import EngineName
from archcli.modules.stored.formats import NATIVE
from archcli.wings.serving.api.engine import engine_of, share_of
from archcli.wings.serving.api.fitting.choice import Choice
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.wings.serving.api.known_device.known import KnownDevice, known_device
from archcli.wings.serving.devices.engines import load_engine, runs_on
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.answers.question import PredictedDevice, PredictQuestion
from archcli.wings.serving.predict.constants import PEAKS

Q = TypeVar("Q", MemoryQuestion, PredictQuestion)
MULTIPLIED = sorted({product.needed for product in NATIVE.values()})
"""Types of packed numbers that devices multiply, which some programs need."""
NAMES: tuple[EngineName, ...] = get_args(EngineName)
Key = tuple[Hashable, ...]


def runs_as(device: DeviceMemory, maker: str, engine: str | None) -> Key:
    """What of a device decides how programs run on it; its name, bytes and rates do not."""
    figures = device.figures
    peaks = None if figures is None else tuple(figures.isdisjoint(PEAKS[dtype]) for dtype in MULTIPLIED)
    kinds = device.family, device.stated, device.of_servers, device.usual_dtype, maker
    return *kinds, peaks, _platform(device.platform), _engines_by_memory(device.memory_bytes, engine)


@cache
def _engines_by_memory(memory_bytes: int, engine: str | None) -> Key:
    """The engines as they run with so much memory; of shares of it, only those of the engine in question."""
    shares = {name for name in NAMES if isinstance(load_engine(name).get("indexer_scores"), float)}
    return tuple(engine_of(name, memory_bytes) for name in NAMES if name == engine or name not in shares)


@cache
def _platform(platform: str) -> Key:
    """Which engines run on a platform, and in which formats and caches."""
    places = ((name, ("", *load_engine(name).get("formats_on", {}))) for name in NAMES)
    return tuple(runs_on(name, platform, what) for name, forms in places for what in forms)


def is_stored_alike(model: Model, further: Model) -> bool:
    """Whether two models of one source hold their weights in one form."""
    fields = vars(further)
    return all(value is fields[name] or value == fields[name] for name, value in vars(model).items())


class SharedModels:
    """Questions that were made before, with the model as each program holds it and its traced passes."""

    def __init__(self) -> None:
        self._questions: dict[Any, Any] = {}
        self._models: list[TracedModel] = []

    def shared(self, alike: Key, changes: Mapping[str, Any], make: Callable[..., Q]) -> Q:
        """The question that was made for such a device, or the error that it raised."""
        tokens, changes = changes["seq_len"], {k: v for k, v in changes.items() if k != "seq_len"}
        form = *alike, *sorted(changes.items())
        if form not in self._questions:
            self._questions[form] = self._first(make, seq_len=tokens, **changes)
        first = self._questions[form]
        if isinstance(first, ArchError):
            raise first
        if (form, tokens) not in self._questions:
            self._questions[form, tokens] = first.changed(seq_len=tokens)
        shared: Q = self._questions[form, tokens]
        return shared

    def _first(self, make: Callable[..., Q], **changes: Any) -> Q | ArchError:
        try:
            question = make(**changes)
        except ArchError as error:
            return error
        known = self._known(question.model)
        return replace(question, model=known.model, known=known)

    def _known(self, model: Model) -> TracedModel:
        """The model with its traced passes, the same for all questions about weights stored so."""
        alike = (known for known in self._models if is_stored_alike(known.model, model))
        known = next(alike, None)
        if known is None:
            known = TracedModel(model)
            self._models.append(known)
        return known


class SharedQuestions(SharedModels):
    """The questions of `archcli fit` about one model and many devices.

    Devices on which programs run alike share a question, and with it the model as each program holds it, its
    traced passes and the bytes of its formats; only the device of the question is another.
    """

    def __init__(self, options: FitOptions, subject: Subject, beyond: FitOptions | None = None) -> None:
        """`beyond` asks again, with an offload, where no format fits."""
        super().__init__()
        self.beyond = beyond
        self.options, self.subject, self._fit = options, subject, options.question(subject)
        self._kinds: dict[Key, int] = {}
        self._devices: dict[str, tuple[KnownDevice, int]] = {}
        self._timed: dict[Key, PredictedDevice] = {}
        self._formats: dict[int, SharedFormats] = {}

    def _device(self, name: str) -> tuple[KnownDevice, int]:
        """What is known of one device, and a number of all on which programs run like that."""
        if name not in self._devices:
            known = known_device(name)
            kind = runs_as(known.memory, known.maker, self.options.engine)
            self._devices[name] = known, self._kinds.setdefault(kind, len(self._kinds))
        return self._devices[name]

    def formats(self, device: str, count: int = 1, min_speed: float | None = None) -> SharedFormats:
        """The formats of the model on so many of a device, and tokens a second of all that are enough.

        Raises ArchError as `archcli fit` of that device.
        """
        (known, alike), share = self._device(device), self.options.utilization
        there = known.memory._replace(n_devices=count)

        def fit() -> FitQuestion:
            # of one device: several share a model by a plan, which is chosen for each context
            return replace(self.options, device=known.budget.name).question(self.subject)

        def memory(**changes: Any) -> MemoryQuestion:
            # what neither states is no change
            changes = {
                k: v for k, v in changes.items() if v is not None or vars(self.options).get(k) is not None
            }
            question = self.shared(("memory", alike), changes, lambda **it: fit().memory(**it))
            return replace(question, device=share_of(there, question.settings.engine, share))

        def predict(**changes: Any) -> PredictQuestion:
            question = self.shared(("predict", alike), changes, lambda **it: fit().predict(**it))
            engine, chunk = question.settings.engine or NO_ENGINE, question.options.chunk
            # of one model: constants of whole runs are of quantized or of plain weights
            run = device, engine.name, chunk, question.model.quantization is not None
            if run not in self._timed:
                self._timed[run] = known.run_by(engine, share, question.model, chunk)
            taken = there.taken_by(engine, share)
            return replace(question, device=self._timed[run]._replace(memory=taken))

        shared = replace(self._fit, memory=memory, predict=predict, min_speed=min_speed)
        return SharedFormats(shared, self._formats, alike)

    def offloaded(self, device: str, count: int, min_speed: float | None = None) -> Choice | None:
        """What `archcli fit --offload` chooses, the fastest it can; None where nothing fits even so."""
        if self.beyond is None:
            return None
        options = replace(self.beyond, device=f"{count}x{device}" if count > 1 else device)
        with suppress(ArchError):  # of a device that has no memory beside RAM
            for speed in dict.fromkeys((min_speed, None)):
                best = Formats(replace(options, min_speed=speed).question(self.subject)).best()
                if best is not None:
                    return best
        return None


SLACK = 1.5
"""By how much a smaller format may be faster than its fewer bytes say."""


class SharedFormats(Formats):
    """The formats of a model on a device, whose bytes are counted once for devices that run alike."""

    def __init__(self, fit: FitQuestion, counted: dict[int, SharedFormats], alike: int) -> None:
        self._like = counted.setdefault(alike, self)
        self._too_slow: dict[str, Choice] = {}
        self._untimed: dict[str, Choice] = {}
        super().__init__(fit)

    @cached_property
    def published(self) -> MemoryQuestion:
        """The model as the engine's files have it, else as published; in bf16 where that is unknown."""
        return super().published if self._like is self else self._like.published

    @cached_property
    def published_bytes(self) -> int:
        """Bytes of all weights as they are published."""
        return super().published_bytes if self._like is self else self._like.published_bytes

    @cached_property
    def by_bytes(self) -> list[tuple[int, str]]:
        """(bytes of all weights, format), the largest first, begun by the published one."""
        return super().by_bytes if self._like is self else self._like.by_bytes

    def does(self, choice: Choice, tokens: int, sure: bool = False) -> bool:
        """Whether a context fits, surely or by the count, at the speed as expected: a limit is none."""
        if not choice.holds(tokens, choice.engine.margin if sure else 0):
            return False
        least, engine = self.fit.min_speed, choice.engine.name
        if least is None:
            return True
        slow = self._too_slow.get(engine)
        if slow is not None and SLACK * expected(slow) * self._size(slow) < least * self._size(choice):
            # in one engine fewer bytes are no faster than that: not worth a prediction
            self._untimed[engine] = choice
            return False
        if expected(choice) >= least:
            return True
        if slow is None or expected(choice) > expected(slow):
            self._too_slow[engine] = choice
        return False

    @property
    def fastest(self) -> Choice | None:
        """The fastest of the formats that hold the context and are too slow; None without any."""
        return max((*self._too_slow.values(), *self._untimed.values()), key=expected, default=None)

    def with_bits(self) -> list[Choice]:
        """All formats of enough bits that hold the context, the largest first."""
        return [it for it in self.fitting() if self._has_bits(it)]


def expected(choice: Choice) -> float:
    """Tokens a second as expected; 0 where a limit alone is known."""
    return choice.tokens_per_s["expected"] or 0.0
