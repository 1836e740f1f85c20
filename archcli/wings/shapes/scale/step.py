"""The predicted training step of a shape on devices: its micro batch, days of training, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.measure.report import Column, Table
from archcli.modules import Model
from archcli.units import three_figures
from archcli.wings.serving.memory.answers.question import check_question
from archcli.wings.serving.memory.answers.tables import device_in_words
from archcli.wings.serving.memory.answers.verdict import verdict_of
from archcli.wings.serving.predict.answers.costs import HOUR
from archcli.wings.serving.predict.answers.question import PredictQuestion, check_prediction
from archcli.wings.serving.predict.answers.tables import FIGURES, training_record
from archcli.wings.serving.predict.prediction import Prediction

Record = dict[str, Any]
# the largest first, as the first that fits is taken
MICRO_BATCHES = (8, 4, 2, 1)
RECOMPUTED = ("none", "layer")


class StepTime(NamedTuple):
    """A predicted training step: its question, the prediction, and whether it fits."""

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

    def record(self, tokens: int) -> Record:
        """Days of a training by JSON's keys, and the settings of its steps."""
        settings = self.question.settings
        of_training = replace(self.question.options, tokens=tokens)
        whole = training_record(replace(self.question, options=of_training), self.prediction)
        return {
            "days": whole["days"],
            "device_hours": whole["device_hours"],
            "mfu": self.prediction.mfu,
            "fits": self.fits,
            "verdict": verdict_of(memory := self.question.memory(), memory.answer()),
            "batch_size": settings.batch_size,
            "grad_accum": settings.grad_accum,
            "recompute": settings.recompute,
            "plan": self.question.plan.inputs(),
        }

    def in_words(self, days: Mapping[str, float | None]) -> str:
        """The days as expected with their range, or at least those of the device's peaks."""
        known = {name: three_figures(value) for name, value in days.items() if value is not None}
        took = f"at least {known['floor']} days"
        if "expected" in known:
            took = f"{known['expected']} days ({known['low']} to {known['high']})"
        devices = device_in_words(self.question.device.memory)
        return f"{took} on {devices}{'' if self.fits else ', into which it does not fit'}"

    def notes(self) -> Iterator[str]:
        """How the step runs, and what its times leave open."""
        settings, devices = self.question.settings, self.question.device.name
        how = f"-b {settings.batch_size} --grad-accum {settings.grad_accum}"
        again = "" if settings.recompute == "none" else f" --recompute {settings.recompute}"
        plan = f"{self.question.plan.devices} x {devices} with ZeRO 3"
        yield f"Times are those of archcli predict for {plan}, {how}{again}."
        if not self.prediction.seconds.is_calibrated:
            yield f"No measurements of {devices} are known: times are the limit of its peaks."
        if not self.fits:
            yield f"It does not fit into {devices}; times are as if it did: `archcli memory --fit devices`."

    def table(self, totals: Mapping[str, Any]) -> Table:
        """Days and hours of devices, as limit, expected and range; a device without constants has a limit."""
        known = [kind for kind in FIGURES if totals["days"][kind] is not None]
        columns = [Column("what", ""), *(Column(kind, FIGURES[kind], "bits") for kind in known)]
        records = [
            {"what": what, **{kind: totals[key][kind] for kind in known}}
            for key, what in (("days", "days"), ("device_hours", "device hours"))
        ]
        return Table("Time", columns, records)


class TrainingDevices(NamedTuple):
    """The devices to train on: a training step on them, of any model."""

    question: PredictQuestion

    def inputs(self) -> Record:
        """The inputs of a report, by JSON's keys."""
        devices = self.question.device.memory
        return {"device": devices.name, "n_devices": devices.n_devices}

    def step(self, model: Model, seq_len: int, batch_tokens: int) -> StepTime:
        """The fastest step of the largest micro batches that fit, with or without recomputing each layer.

        Where none fits, the smallest one. Raises ArchError for what cannot be predicted.
        """
        question = replace(self.question, model=model).changed(seq_len=seq_len)
        check_prediction(question)
        check_question(question.memory())
        sequences = max(batch_tokens // (seq_len * question.plan.dp), 1)
        steps = [
            StepTime(tried, tried.answer().prediction, fits=True)
            for recompute in RECOMPUTED
            if (tried := _largest(question, sequences, recompute)) is not None
        ]
        if steps:
            return max(steps, key=lambda step: step.rate)
        smallest = _sized(question, 1, sequences, RECOMPUTED[-1])
        return StepTime(smallest, smallest.answer().prediction, fits=False)


def _largest(question: PredictQuestion, sequences: int, recompute: str) -> PredictQuestion | None:
    """The question with the largest micro batch that fits; None where none does."""
    sizes = [size for size in MICRO_BATCHES if size <= sequences]
    tried = (_sized(question, size, sequences, recompute) for size in sizes)
    return next((sized for sized in tried if sized.memory().fits()), None)


def _sized(question: PredictQuestion, size: int, sequences: int, recompute: str) -> PredictQuestion:
    accumulated = max(sequences // size, 1)
    return question.changed(batch_size=size, grad_accum=accumulated, recompute=recompute)
