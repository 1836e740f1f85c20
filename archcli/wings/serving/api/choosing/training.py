"""Training steps of one model on many devices, for `archcli choose --phase train`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.wings.serving.api.choosing.shared import SharedModels, runs_as
from archcli.wings.serving.api.fitting.choice import UNKNOWN
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.api.memory import MemoryOptions
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.launches.memory.trainer import NO_TRAINER, Trainer
from archcli.wings.serving.memory.answers.fit import usual_plan
from archcli.wings.serving.memory.answers.question import MemoryAnswer, MemoryQuestion, check_question
from archcli.wings.serving.memory.answers.verdict import Verdict, verdict_of
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.predict.answers.tables import totals_of

Record = dict[str, Any]


@dataclass(frozen=True)
class TimedStep:
    """A training step on devices: its memory, and its prediction, each as its command answers it."""

    promised: MemoryQuestion
    answer: MemoryAnswer
    predicted: PredictQuestion | None

    has_bits = True
    offload = None

    @property
    def format(self) -> str:
        """The weights' format, as --dtype takes it."""
        return self.promised.model.stored_as or self.promised.settings.dtype

    @property
    def engine(self) -> Trainer:
        """What trains; of archcli's modules none."""
        return self.promised.settings.trainer or NO_TRAINER

    @property
    def context(self) -> int:
        """Tokens of a sequence."""
        return int(self.promised.settings.tokens(self.promised.model))

    @property
    def peak_bytes(self) -> int:
        """Peak bytes of the largest rank."""
        return self.answer.peak_bytes

    @property
    def verdict(self) -> Verdict | None:
        """Whether it fits."""
        return verdict_of(self.promised, self.answer)

    @cached_property
    def speed(self) -> Record:
        """Totals of the prediction; empty where no rates are known."""
        try:
            return {} if self.predicted is None else totals_of(self.predicted, self.predicted.answer())
        except ArchError:
            return {}

    @property
    def tokens_per_s(self) -> Record:
        """Trained tokens a second of all devices; None where no rates are known."""
        rates: Record = self.speed.get("tokens_per_s", UNKNOWN)
        return rates

    def record(self) -> Record:
        """The step by JSON's keys."""
        return {
            "format": self.format,
            "context": self.context,
            "tokens_per_s": self.tokens_per_s,
            "peak_bytes": self.peak_bytes,
        }


class TrainingOptions(NamedTuple):
    """What is trained, and how: the options of `archcli memory --phase train` by their names."""

    batch_size: int = 1
    seq_len: int | None = None
    dtype: str | None = None
    method: str | None = None
    trainer: str | None = None


class TrainingQuestions(SharedModels):
    """The questions of a training step of one model on many devices; passes are traced once for all."""

    def __init__(self, options: TrainingOptions, subject: Subject) -> None:
        super().__init__()
        self.options, self.subject = options, subject

    def step(self, device: str, count: int) -> TimedStep | None:
        """The step on so many of a device by the usual plan; None where it does not fit.

        Raises ArchError where the trainer does not run so.
        """
        known, model = known_device(f"{count}x{device}"), self.subject.model
        alike = (*runs_as(known.memory, known.maker, None), known.memory.per_node >= count, count)
        options: dict[str, Any] = {**self.options._asdict(), "phase": "train", "device": f"{count}x{device}"}

        def memory(**changes: Any) -> MemoryQuestion:
            question = MemoryOptions(model, **options, **changes).question(model)
            check_question(question)
            return question

        tokens = {"seq_len": options.pop("seq_len")}
        question = self.shared(("memory", *alike), tokens, memory)
        question = replace(question, device=known.memory.taken_by(question.settings.engine or NO_ENGINE))
        if count > 1:
            question = replace(question, plan=usual_plan(question, count))
        answer = question.answer()
        if not answer.fits(question.device):
            return None

        def predict(**changes: Any) -> PredictQuestion:
            return predict_question(model, PredictOptions(model, **options, **changes))

        try:
            predicted = self.shared(("predict", *alike), tokens, predict)
        except ArchError:
            return TimedStep(question, answer, None)
        timed = known.run_by(predicted.settings.engine or NO_ENGINE, None, predicted.model)
        return TimedStep(question, answer, replace(predicted, device=timed, plan=question.plan))
