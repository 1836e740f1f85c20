"""Solve: the shape for a size, for a budget of FLOPs, or for hours on devices, and how long it trains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.memory.answers.question import check_question
from archcli.measure.predict.answers.question import PredictQuestion, check_prediction
from archcli.measure.predict.answers.tables import HOUR, training_record
from archcli.measure.predict.prediction import Prediction
from archcli.measure.scale.laws import TrainingCost, training_cost
from archcli.measure.scale.question import ScaleSettings
from archcli.measure.scale.search import ChosenShape, Judge, chosen, ranked
from archcli.measure.scale.shape import BaseShape, Shape
from archcli.modules import Model

# the largest first, as the first that fits is taken
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


ROUNDS = 8
CLOSE = 0.005
"""A size is found when a round moves it by less than so much."""


class ScaleAnswer(NamedTuple):
    """The shapes, best first, the parameters that were asked for, and the training of the best.

    `step` is the predicted training step, None without a device.
    """

    base: BaseShape
    params: int
    shapes: list[ChosenShape]
    cost: TrainingCost
    tokens: int
    step: StepTime | None

    @property
    def best(self) -> ChosenShape:
        """The chosen shape."""
        return self.shapes[0]


class ScaleProblem(NamedTuple):
    """A base and what is asked of it; `timed` is a training step on the devices, of any model.

    `siblings` are models of its family, of several widths, that all have its n_kv_heads: so it is kept.
    """

    model: Model
    settings: ScaleSettings
    judge: Judge
    timed: PredictQuestion | None = None
    siblings: tuple[str, ...] = ()

    @property
    def keep(self) -> tuple[str, ...]:
        """Names or paths of sizes that stay: those that are asked for, and what the family keeps."""
        return (*self.settings.keep, *(["n_kv_heads"] if self.siblings else []))

    def solve(self) -> ScaleAnswer:
        """Find the shape. Raises ArchError for settings that say nothing, or that no shape meets."""
        settings = self.settings
        settings.check(self.model, timed=self.timed is not None)
        training_cost(self.model, settings.seq_len)  # refuses, early, a model that cannot be trained
        base = BaseShape(self.model, self.keep)
        params = settings.params or self._best_size(base)
        shapes = chosen(base, params, self.judge)
        model = shapes[0].model
        cost = training_cost(model, settings.seq_len)
        step = self._step(model, cost)
        return ScaleAnswer(base, params, shapes, cost, self._tokens(cost, step), step)

    def _step(self, model: Model, cost: TrainingCost) -> StepTime | None:
        if self.timed is None:
            return None
        return step_time(self.timed, model, cost.seq_len, self.settings.batch_tokens)

    def _tokens(self, cost: TrainingCost, step: StepTime | None) -> int:
        """Tokens of the training: of the hours or FLOPs, or what the law asks for this size."""
        settings = self.settings
        if settings.hours is not None and step is not None:
            return step.tokens_in(settings.hours)
        if settings.compute is not None:
            return cost.tokens_of(settings.compute)
        return round(settings.scaling_law.tokens(cost.active_params))

    def _best_size(self, base: BaseShape) -> int:
        """All parameters of the shape whose active ones the law asks for."""
        total, active = base.counts
        share = total / active
        params = round(self._wanted(base.model) * share)
        for _ in range(ROUNDS):
            shape = self._ranked(base, params)
            # the active share of a mixture changes with its width and depth
            share = shape.params / shape.active_params
            before, params = params, round(self._wanted(shape.model) * share)
            if abs(params / before - 1) < CLOSE:
                break
        return params

    def _ranked(self, base: BaseShape, params: int) -> Shape:
        try:
            return ranked(base, params)[0].shape
        except ArchError as error:
            what = error.problems[0].what
            hint = "ask for more, or for a size by --params"
            raise ArchError(Problem(f"the law asks for a size that is not there: {what}", hint)) from None

    def _wanted(self, model: Model) -> float:
        """The active parameters that the law asks for the budget, hours being those of this model."""
        cost = training_cost(model, self.settings.seq_len)
        step = self._step(model, cost) if self.settings.hours is not None else None
        flops = self.settings.compute or cost.matmul_flops * self._tokens(cost, step)
        return self.settings.scaling_law.params(float(flops))
