"""Timing: how long a training takes on devices, as `archcli predict` reads a training step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from archcli.measure.memory.answers.checks import check_question
from archcli.measure.predict.answers.checks import check_prediction
from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.predict.answers.totals import HOUR, training_record
from archcli.measure.predict.prediction import Prediction
from archcli.modules import Model

MICRO_BATCHES = (8, 4, 2, 1)
RECOMPUTED = ("none", "layer")


class StepTime(NamedTuple):
    """A training step that was predicted: its question, the prediction, and whether it fits."""

    question: PredictQuestion
    prediction: Prediction
    fits: bool

    @property
    def rate(self) -> float:
        """Tokens a second: expected, or by the floor where the device has no constants."""
        rates = self.prediction.tokens_per_s
        return rates["expected"] or rates["floor"] or 0.0

    def tokens_in(self, hours: float) -> int:
        """The tokens of so many hours."""
        return int(self.rate * hours * HOUR)

    def record(self, tokens: int) -> dict[str, Any]:
        """Days of a training by JSON's keys, and the settings of its steps."""
        settings = self.question.settings
        asked = replace(self.question.asked, tokens=tokens)
        whole = training_record(replace(self.question, asked=asked), self.prediction)
        return {
            "days": whole["days"],
            "device_hours": whole["device_hours"],
            "mfu": self.prediction.mfu,
            "fits": self.fits,
            "batch_size": settings.batch_size,
            "grad_accum": settings.grad_accum,
            "recompute": settings.recompute,
            "plan": self.question.plan.inputs(),
        }


def step_time(question: PredictQuestion, model: Model, seq_len: int, batch_tokens: int) -> StepTime:
    """The fastest step of those micro batches that fit, with or without recomputing each layer.

    Where none fits, the smallest one. Raises ArchError for what cannot be predicted.
    """
    asked = replace(question, model=model).changed(seq_len=seq_len)
    check_prediction(asked)
    check_question(asked.memory())
    sequences = max(batch_tokens // (seq_len * asked.plan.dp), 1)
    steps = [
        StepTime(tried, tried.answer().prediction, fits=True)
        for recompute in RECOMPUTED
        if (tried := _largest(asked, sequences, recompute)) is not None
    ]
    if steps:
        return max(steps, key=lambda step: step.rate)
    smallest = _sized(asked, 1, sequences, RECOMPUTED[-1])
    return StepTime(smallest, smallest.answer().prediction, fits=False)


def _largest(question: PredictQuestion, sequences: int, recompute: str) -> PredictQuestion | None:
    """The question with the largest micro batch that fits; None where none does."""
    sizes = [size for size in MICRO_BATCHES if size <= sequences]
    tried = (_sized(question, size, sequences, recompute) for size in sizes)
    return next((sized for sized in tried if sized.memory().fits()), None)


def _sized(question: PredictQuestion, size: int, sequences: int, recompute: str) -> PredictQuestion:
    accumulated = max(sequences // size, 1)
    return question.changed(batch_size=size, grad_accum=accumulated, recompute=recompute)
