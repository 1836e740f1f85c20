"""The question of `archcli scale`, a size or a budget, and the shape and training that answer it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.modules import Model
from archcli.modules.spec.values import AboveZero, Interval, check_values
from archcli.wings.shapes.scale.laws import (
    DEFAULT_LAW,
    LAWS,
    LawName,
    ScalingLaw,
    TrainingCost,
    training_cost,
)
from archcli.wings.shapes.scale.search import ChosenShape, Judge, chosen, ranked
from archcli.wings.shapes.scale.shape import BaseShape, Shape
from archcli.wings.shapes.symbolic.symbols import sizes

if TYPE_CHECKING:
    from archcli.wings.shapes.scale.step import StepTime, TrainingDevices

DEFAULT_BATCH = 2**20
"""Tokens of a training step: what GPT-3 of 1.3B and 2.7B trained on (arXiv:2005.14165 table 2.1)."""
# beyond these a question is a slip
Params = Annotated[int, Interval(gt=0, le=10**16)]
Flops = Annotated[int, Interval(gt=0, le=10**34)]
Hours = Annotated[float, Interval(gt=0, le=1e7)]
GOALS = {"params": "--params", "compute": "--compute", "hours": "--hours"}


@dataclass(frozen=True, slots=True)
class ScaleSettings:
    """One goal of `params`, `compute` (FLOPs) and `hours`, and how it is reached.

    law: the scaling law that gives the best size for a budget.
    batch_tokens: tokens of a training step.
    seq_len: tokens of a sequence; None is 2048, or max_seq_len where that is less.
    keep: names or paths of sizes that stay as they are.

    Raises ArchError for a value that a field does not accept.
    """

    params: Params | None = None
    compute: Flops | None = None
    hours: Hours | None = None
    law: LawName = DEFAULT_LAW
    batch_tokens: AboveZero = DEFAULT_BATCH
    seq_len: AboveZero | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values("scale", self)

    @property
    def scaling_law(self) -> ScalingLaw:
        """The law."""
        return LAWS[self.law]

    def check(self, model: Model, *, timed: bool) -> None:
        """Raise ArchError unless one goal is stated, hours with a device, and `keep` names sizes."""
        problems = list(self._problems(model, timed=timed))
        if problems:
            raise ArchError(problems)

    def _problems(self, model: Model, *, timed: bool) -> Iterator[Problem]:
        goals = [option for name, option in GOALS.items() if getattr(self, name) is not None]
        if not goals:
            what = "scale needs a size or a budget"
            yield Problem(what, "--params 3e9, --compute 1e21, or --hours 24 with --device 8xh100-sxm")
        if len(goals) > 1:
            yield Problem(f"{' and '.join(goals)} each ask for another size", f"give {either(goals)}")
        if self.hours is not None and not timed:
            yield Problem("--hours needs a device", "add --device 8xh100-sxm, or give --compute")
        paths = [path for path, _, value in sizes(model) if value is not None]
        known = {*paths, *(path.rsplit(".", 1)[-1] for path in paths)}
        for name in self.keep:
            if name not in known:
                names = sorted(word for word in known if "." not in word)
                yield Problem(f"--keep {quote(name)}: the model has no such size", suggest(name, names))
        if {"d_model", "n_layers"} <= {*self.keep}:
            yield Problem("nothing is left to scale where d_model and n_layers are kept", "keep one of them")


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
    """A base and the settings of its scaling; `devices` are those that train it.

    `siblings` are models of its family in several widths, all with its n_kv_heads, which is kept for that.
    """

    model: Model
    settings: ScaleSettings
    judge: Judge
    devices: TrainingDevices | None = None
    siblings: tuple[str, ...] = ()

    @property
    def keep(self) -> tuple[str, ...]:
        """Names or paths of sizes that stay: those of the settings, and n_kv_heads if the family keeps it."""
        return (*self.settings.keep, *(["n_kv_heads"] if self.siblings else []))

    def solve(self) -> ScaleAnswer:
        """Find the shape. Raises ArchError for settings that say nothing, or that no shape meets."""
        settings = self.settings
        settings.check(self.model, timed=self.devices is not None)
        training_cost(self.model, settings.seq_len)  # refuses, early, a model that cannot be trained
        base = BaseShape(self.model, self.keep)
        params = settings.params or self._best_size(base)
        shapes = chosen(base, params, self.judge)
        model = shapes[0].model
        cost = training_cost(model, settings.seq_len)
        step = self._step(model, cost)
        return ScaleAnswer(base, params, shapes, cost, self._tokens(cost, step), step)

    def _step(self, model: Model, cost: TrainingCost) -> StepTime | None:
        if self.devices is None:
            return None
        return self.devices.step(model, cost.seq_len, self.settings.batch_tokens)

    def _tokens(self, cost: TrainingCost, step: StepTime | None) -> int:
        """Tokens of the training: those of the hours or FLOPs, else those of the law for this size."""
        settings = self.settings
        if settings.hours is not None and step is not None:
            return step.tokens_in(settings.hours)
        if settings.compute is not None:
            return cost.tokens_of(settings.compute)
        return round(settings.scaling_law.tokens(cost.active_params))

    def _best_size(self, base: BaseShape) -> int:
        """The parameters of the shape with the active parameters of the law."""
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
        """The active parameters of the law for the budget; hours become FLOPs by this model's step."""
        cost = training_cost(model, self.settings.seq_len)
        step = self._step(model, cost) if self.settings.hours is not None else None
        flops = self.settings.compute or cost.matmul_flops * self._tokens(cost, step)
        return self.settings.scaling_law.params(float(flops))
