"""Solve: the shape for a size, for a budget of FLOPs, or for hours on devices, with its training."""

from __future__ import annotations

from typing import NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.scale.budget import TrainingCost, training_cost
from archcli.measure.scale.choose import ChosenShape, Judge, chosen
from archcli.measure.scale.question import ScaleSettings
from archcli.measure.scale.search import ranked
from archcli.measure.scale.shape import BaseShape, Shape
from archcli.measure.scale.timing import StepTime, step_time
from archcli.modules import Model

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
