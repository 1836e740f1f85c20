"""Prediction: how long a pass or a training step takes on the devices of a plan, and what limits it.

The time is that of one rank of the slowest stage: its kernels one after the other, and the communication that
no compute hides. A stage of a pipeline waits (p - 1) / v micro batches beside its own, or in a prefill while
the first and the last batch are in other stages. A decoded token passes all stages, one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import reduce
from itertools import chain
from math import fsum
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from archcli.modules import Model
from archcli.wings.serving.memory.offload import Offload
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import ONE_DEVICE, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.communication.collective import Exposed
from archcli.wings.serving.predict.constants import Bound, Origin
from archcli.wings.serving.predict.left_out import OF_FUSED, OF_TOWERS, not_modelled, of_compiled
from archcli.wings.serving.predict.rank.kernels import (
    NO_CHANGE,
    CacheUse,
    RankKernels,
    compiled_runs,
    rank_kernels,
)
from archcli.wings.serving.predict.rank.planned import PlannedPass, asked_pass, planned_pass
from archcli.wings.serving.predict.rank.rank_times import RankTimes, TimingDevice, times_on
from archcli.wings.serving.predict.rank.rows import HOST, PredictedRow, bus_row, rows_of_stage, waits
from archcli.wings.serving.predict.rank.stage_step import StageStep, stage_step
from archcli.wings.serving.predict.times import Seconds
from archcli.wings.serving.recorded.classes import TimeClass

if TYPE_CHECKING:  # of models with towers alone
    from archcli.wings.serving.predict.rank.tower_times import TowerTime

LINK: Bound = "link"
COMMUNICATION, BUBBLE = "communication", "bubble"
PRODUCTS = (TimeClass.CONTRACTION, TimeClass.FUSED_ATTENTION)
"""Classes of kernels whose FLOPs are those of matrix products."""


class Prediction(NamedTuple):
    """The seconds of a pass or a step on all devices of a plan, and what they are made of.

    rows, communication: of one rank of the slowest stage; in decoding, of a batch in all stages.
    bubble_s: seconds in which that stage, or batch, waits for others.
    tokens: of all replicas, in a step, in a prefill, or one for each decoded sequence.
    model_flops: matrix products that the architecture asks for, on all devices.
    executed_flops: matrix products that run, recomputed ones among them, on all devices.
    peak_flops: the peak of all devices, in FLOP/s.
    origin: where the constants are from; None without any.
    """

    seconds: Seconds
    bound_by: Bound
    rows: tuple[PredictedRow, ...]
    communication: tuple[Exposed, ...]
    bubble_s: float
    tokens: int
    devices: int
    model_flops: float
    executed_flops: float
    peak_flops: float
    origin: Origin | None
    not_modelled: tuple[str, ...] = ()

    @property
    def mfu(self) -> float:
        """FLOPs of the architecture a second, as a share of the peak."""
        return self.model_flops / (self.seconds.expected * self.peak_flops)

    @property
    def hfu(self) -> float:
        """FLOPs that run a second, recomputed ones among them, as a share of the peak."""
        return self.executed_flops / (self.seconds.expected * self.peak_flops)

    @property
    def tokens_per_s(self) -> dict[str, float | None]:
        """Tokens a second of all devices: at the floor of the time, as expected, at least and at most."""
        seconds = self.seconds.record()
        # the longest time has the lowest rate
        seconds["low"], seconds["high"] = seconds["high"], seconds["low"]
        return {name: None if s is None else self.tokens / s for name, s in seconds.items()}

    def by_class(self) -> dict[str, float]:
        """Seconds by class of kernels, and those of exposed communication and of the bubble."""
        seconds: dict[str, float] = {}
        for row in self.rows:
            seconds[row.op_class] = seconds.get(row.op_class, 0.0) + row.seconds.expected
        seconds[COMMUNICATION] = self._exposed_s
        seconds[BUBBLE] = self.bubble_s
        return dict(sorted(((k, s) for k, s in seconds.items() if s), key=lambda pair: -pair[1]))

    @property
    def _exposed_s(self) -> float:
        """Seconds of communication that no compute hides."""
        return fsum(collective.least_s for collective in self.communication)


def predict_pass(
    model: Model,
    settings: MemorySettings,
    device: TimingDevice,
    plan: Plan = ONE_DEVICE,
    use: CacheUse = NO_CHANGE,
    *,
    compiled: bool = False,
    known: TracedModel | None = None,
) -> Prediction:
    """Predict a prefill, a decoded token of each sequence, or a training step, eager or compiled.

    With images or sounds the towers run before the language model. `known` keeps the kernels of the model for
    questions about other devices. Raises ArchError for a plan that the model cannot have, an operation whose
    kernels are not known, and a device that states no peak of the dtype or no rate of a link that the plan
    needs.
    """
    of_text = _predict_text(model, settings, device, plan, use, compiled=compiled, known=known)
    if not (model.towers and settings.media):
        return of_text
    from archcli.wings.serving.predict.rank.tower_times import tower_times  # of towers alone

    for time in tower_times(model, settings, device, plan, use):
        of_text = _with_tower(of_text, time, settings, plan)
    return of_text._replace(not_modelled=(*of_text.not_modelled, OF_TOWERS)) if compiled else of_text


def _with_tower(prediction: Prediction, time: TowerTime, settings: MemorySettings, plan: Plan) -> Prediction:
    """The prediction with the time of a tower before it, on all replicas."""
    # each rank of a replica's first stage runs the whole tower
    executed = _products(time.rows) * plan.replicas * plan.tp
    batch_size = settings.batch_size if settings.phase == "train" else plan.of_replica(settings).batch_size
    needed = time.model_flops * _passes(settings, plan) * settings.batch_size / batch_size
    rows = (*prediction.rows, *time.rows)
    exposed_s = fsum(sent.least_s for sent in prediction.communication)
    return prediction._replace(
        seconds=_bounded(prediction.seconds.plus(time.step.total)),
        bound_by=HOST if prediction.bound_by == HOST else next(iter(bounds(rows, exposed_s))),
        rows=rows,
        model_flops=prediction.model_flops + needed,
        executed_flops=prediction.executed_flops + max(executed, needed),
    )


def _predict_text(
    model: Model,
    settings: MemorySettings,
    device: TimingDevice,
    plan: Plan = ONE_DEVICE,
    use: CacheUse = NO_CHANGE,
    *,
    compiled: bool = False,
    known: TracedModel | None = None,
) -> Prediction:
    """The pass of the language model alone, over the tokens of its media too."""
    has_constants, traced = device.has_constants(settings.dtype), traced_plan(plan, settings, device)

    def kernels() -> tuple[RankKernels, float]:
        plan.check(model, settings)
        planned = planned_pass(model, settings, traced)
        runs = compiled_runs(planned, settings) if compiled else None
        return rank_kernels(planned, settings, plan, use, runs), _model_flops(model, settings, plan, planned)

    key = "kernels of a rank", settings, plan, traced, use, compiled
    known = TracedModel(model) if known is None or known.model is not model else known
    rank, asked_flops = known.once(key, kernels)
    times = RankTimes(rank, device, settings, times_on(known, device, settings, rank.planned.request))
    device = times.device
    step, rows, executed = _run(times, plan, model)
    if _fills_stages(plan, settings) and has_constants:
        whole = rank_kernels(planned_pass(model, settings, replace(plan, pp=1)), settings, plan, use)
        step = step._replace(total=_at_most(step.total, RankTimes(whole, device, settings), plan))
    # this many ranks run the rows of each stage
    alike = plan.replicas * plan.tp
    return Prediction(
        _bounded(step.total),
        HOST if step.launching.expected else next(iter(bounds(rows, step.exposed_s))),
        rows,
        step.communication,
        step.waiting.expected,
        _tokens(model, settings, plan),
        plan.devices,
        asked_flops,
        max(executed * alike, asked_flops),  # a scan of few tokens runs its products element by element
        fsum(card.clock.rates.peak(settings.dtype) for card in device.unlike or (device,) * plan.devices),
        device.origin(settings) if has_constants else None,
        (
            *(of_compiled(rows, times, plan) if compiled else ()),
            *([OF_FUSED] if has_constants and settings.phase == "train" and not compiled else ()),
            *not_modelled(rows, times),
        ),
    )


class RunStages(NamedTuple):
    """The step of one rank, its rows, and the FLOPs of products in a rank of each stage."""

    step: StageStep
    rows: tuple[PredictedRow, ...]
    executed: float


def _run(times: RankTimes, plan: Plan, model: Model) -> RunStages:
    """The pass or step of a plan."""
    if times.settings.phase == "train":
        return _training(times, plan, model)
    offload = times.settings.offload
    return all_batches(times, plan) if offload is None else _offloaded(times, plan, model, offload)


def _training(times: RankTimes, plan: Plan, model: Model) -> RunStages:
    """The step of the slowest stage."""
    grad_accum, over_bus = times.settings.grad_accum, list[PredictedRow]()
    steps = {stage: stage_step(times, plan, stage, grad_accum) for stage in times.distinct(plan)}
    slowest = max(steps, key=lambda stage: steps[stage].total.expected)
    if times.settings.offload is not None:
        from archcli.wings.serving.predict.rank.offloaded import step_copies  # of an offload alone

        step = steps[slowest]
        computing = step.total.beyond(times.update(plan, slowest).time.seconds)
        number, moved, seconds = step_copies(model, times, plan, slowest, computing)
        steps[slowest] = step._replace(total=step.total.plus(seconds))
        over_bus.append(bus_row("train", number, moved, seconds))
    rows = (*rows_of_stage(times, plan, slowest), *waits(times, plan, slowest, steps[slowest].launching))
    rows += tuple(over_bus)
    of_all = (
        rows if stage == slowest else rows_of_stage(times, plan, stage)
        for stage in times.rank.planned.stages(plan)
    )
    return RunStages(steps[slowest], rows, _products(chain.from_iterable(of_all)))


def _decoding(times: RankTimes, plan: Plan, batches: int) -> RunStages:
    """The way of a batch through all stages, one after the other.

    Decoding goes on and on: the batch waits where the slowest stage takes longer for all batches.
    """
    stages = times.rank.planned.stages(plan)
    whole, slowest, rows = _in_turn((times.at(stage), plan, stage) for stage in stages)
    waiting = slowest.scaled(batches).beyond(whole.total)
    step = whole._replace(total=whole.total.plus(waiting), waiting=waiting)
    return RunStages(step, rows, batches * _products(rows))


def _in_turn(
    legs: Iterable[tuple[RankTimes, Plan, Stage]],
) -> tuple[StageStep, Seconds, tuple[PredictedRow, ...]]:
    """Stages one after the other: all of them, the seconds of the slowest, and their rows."""
    alike: dict[Hashable, list[tuple[RankTimes, Plan, Stage]]] = {}
    for times, plan, stage in legs:
        parts = times, plan, stage.is_first, stage.is_last, times.shares(stage)
        alike.setdefault(parts, []).append((times, plan, stage))
    rows: dict[tuple[str, ...], PredictedRow] = {}
    steps = []
    for leg, *further in alike.values():
        number, step = 1 + len(further), stage_step(*leg, 1)
        steps.append((step.total, step.scaled(number)))
        for of_stage in (*rows_of_stage(*leg), *waits(*leg, step.launching)):
            row = of_stage.scaled(number)
            key = row.path, row.stage, row.kernel, row.op_class, row.bound_by
            rows[key] = rows[key].plus(row) if key in rows else row
    whole = reduce(StageStep.plus, (step for _, step in steps))
    slowest = max((total for total, _ in steps), key=attrgetter("expected"))
    return whole, slowest, tuple(rows.values())


def _offloaded(times: RankTimes, plan: Plan, model: Model, offload: Offload) -> RunStages:
    """A pass with a part of the model in RAM: llama.cpp overlaps no chunks of a prompt then."""
    from archcli.wings.serving.predict.rank.offloaded import bus_copies, legs  # of an offload alone

    whole, _, rows = _in_turn(legs(times, plan, offload))
    number, moved, seconds = bus_copies(model, times, offload)
    over_bus = bus_row(times.settings.phase, number, moved, seconds)
    step = whole._replace(total=whole.total.plus(seconds), computing=whole.computing.plus(seconds))
    return RunStages(step, (*rows, *([over_bus] if moved else ())), _products(rows))


def _prefill(times: RankTimes, plan: Plan, batches: int) -> RunStages:
    """The pass of the slowest stage, which runs all batches and waits for the first and after the last.

    At the floor it never waits: pieces of a batch may be in several stages at once.
    """
    stages = times.rank.planned.stages(plan)
    steps = {stage: stage_step(times.at(stage), plan, stage, 1) for stage in stages}
    slowest = max(steps, key=lambda stage: steps[stage].total.expected)
    there, waiting = times.at(slowest), Seconds()
    for stage, step in steps.items():
        waiting = waiting if stage == slowest else waiting.plus(step.total)
    if times.settings.splits_layers:
        from archcli.wings.serving.predict.times import chunked

        waiting = chunked(steps[slowest].total, waiting, _chunks(times))
    # without constants the floor stands for all of them
    waiting = waiting._replace(floor=0.0) if waiting.is_calibrated else Seconds()
    of_prompt = steps[slowest].scaled(batches)
    of_one = (*rows_of_stage(there, plan, slowest), *waits(there, plan, slowest, steps[slowest].launching))
    rows = tuple(row.scaled(batches) for row in of_one)
    executed = batches * sum(_products(rows_of_stage(times, plan, stage)) for stage in stages)
    return RunStages(of_prompt._replace(total=of_prompt.total.plus(waiting), waiting=waiting), rows, executed)


def _chunks(times: RankTimes) -> int:
    """Chunks of all sequences together, which follow one another through the devices."""
    engine, request = times.settings.engine, times.rank.planned.request
    chunk = None if engine is None else engine.chunk
    return 1 if chunk is None else -(-int(request.batch_size * request.seq_len) // chunk)


def _at_most(total: Seconds, times: RankTimes, plan: Plan) -> Seconds:
    """The seconds with a floor of at most that of a pass of the slowest stage."""
    floors = (stage_step(times, plan, stage, 1).total.floor for stage in times.distinct(plan))
    return total._replace(floor=min(total.floor, max(floors)))


def all_batches(times: RankTimes, plan: Plan) -> RunStages:
    """A pass of inference of all sequences, in the batches that go through the stages."""
    planned = times.rank.planned
    batches = -(-int(plan.of_replica(times.settings).batch_size) // int(planned.request.batch_size))
    decodes = planned.request.phase == "decode" or times.settings.verifies
    run = _decoding if decodes else _prefill
    return run(times, plan, batches)


def _products(rows: Iterable[PredictedRow]) -> float:
    return sum(row.flops for row in rows if row.op_class in PRODUCTS)


def traced_plan(plan: Plan, settings: MemorySettings, device: TimingDevice) -> Plan:
    """The plan whose pass is traced.

    Where no more than the floor is known, the stages of a prefill run all sequences in one batch, which reads
    the weights once.
    """
    at_once = _fills_stages(plan, settings) and not device.has_constants(settings.dtype)
    return replace(plan, pp=1) if at_once else plan


def _fills_stages(plan: Plan, settings: MemorySettings) -> bool:
    """Whether the stages are empty before the pass, and after it."""
    fills = settings.phase in {"prefill", "forward"} and not settings.verifies
    return plan.batches_at_once(settings) > 1 and fills


def bounds(rows: Iterable[PredictedRow], exposed_s: float) -> dict[Bound, float]:
    """Seconds of rows by what limits each, and of the link."""
    seconds: dict[Bound, float] = {LINK: exposed_s} if exposed_s else {}
    for row in rows:
        seconds[row.bound_by] = seconds.get(row.bound_by, 0.0) + row.seconds.expected
    return dict(sorted(seconds.items(), key=lambda pair: -pair[1]))


def _bounded(total: Seconds) -> Seconds:
    """The seconds of a step with a range that does not go below the floor, and of a step mostly known."""
    # a constant above 1 puts the expected time below the floor; low is no more than that
    return total._replace(low=max(total.low, min(total.floor, total.expected))).known()


def _tokens(model: Model, settings: MemorySettings, plan: Plan) -> int:
    """Tokens of a step or a prefill, or one decoded token for each sequence."""
    if settings.phase == "decode":
        return int(settings.batch_size)
    return int(settings.batch_size * settings.tokens(model)) * _passes(settings, plan)


def _model_flops(model: Model, settings: MemorySettings, plan: Plan, planned: PlannedPass) -> float:
    """FLOPs of matrix products in all replicas, as `archcli flops` counts them."""
    flops, _ = asked_pass(model, settings, plan, planned).flops()
    return float(flops) * _passes(settings, plan)


def _passes(settings: MemorySettings, plan: Plan) -> int:
    """Passes of `batch_size` sequences that all replicas run together."""
    return plan.dp * plan.micro_batches_of(settings) if settings.phase == "train" else 1
