"""The time of towers beside a language model: their kernels over images and sounds, on a device alone.

Towers run before the language model, one medium after the other. Ranks that share the language model's
matrices each run all of it. Imported for models with towers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.graph import Row
from archcli.measure.passes import Pass
from archcli.modules import Model, Tower
from archcli.modules.spec.request import Medium, Phase, Request
from archcli.modules.spec.trace import trace
from archcli.wings.media.modules.ends.projectors import GROUP
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.plan import ONE_DEVICE, Plan
from archcli.wings.serving.memory.settings import MemoryPhase, MemorySettings
from archcli.wings.serving.memory.shares import PlacedWeight, has_gradients
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.rank.kernels import LOSS, CacheUse, RankKernels, rank_kernels
from archcli.wings.serving.predict.rank.planned import PlannedPass, StagePlacement, repeated_paths
from archcli.wings.serving.predict.rank.rank_times import RankTimes, TimingDevice
from archcli.wings.serving.predict.rank.rows import HOST, PredictedRow, rows_of_stage, waits
from archcli.wings.serving.predict.rank.stage_step import StageStep, stage_step

LANGUAGE_MODEL = "language_model"
TOWER = "tower."
"""How paths of an encoder begin within a tower."""


class TowerTime(NamedTuple):
    """The step of a device that runs a tower over one medium of each sequence, its rows and its FLOPs."""

    step: StageStep
    rows: tuple[PredictedRow, ...]
    model_flops: float


def tower_times(
    model: Model, settings: MemorySettings, device: TimingDevice, plan: Plan, use: CacheUse
) -> Iterator[TowerTime]:
    """The time of each medium of the settings; nothing in decoding.

    Raises ArchError for a medium that is not read, and an operation whose kernels are not known.
    """
    if settings.phase == "decode":
        return
    mine = settings if settings.phase == "train" else plan.of_replica(settings)
    for medium in settings.media:
        yield from _times(
            model.tower_of(medium), medium, mine, device, plan, use, frozen=model.lora is not None
        )


def _times(
    tower: Tower,
    medium: Medium,
    settings: MemorySettings,
    device: TimingDevice,
    plan: Plan,
    use: CacheUse,
    *,
    frozen: bool,
) -> Iterator[TowerTime]:
    """The time of the pass over the pieces of each size."""
    batches = plan.micro_batches_of(settings) if settings.phase == "train" else 1
    if settings.phase == "train":
        # frozen towers run forward alone
        phase: MemoryPhase = "forward" if frozen else "train"
        settings = replace(settings, phase=phase, grad_accum=1 if frozen else batches)
    for planned in _planned(tower, medium, settings):
        yield _time(tower.sized(medium), planned, settings, device, use, batches if frozen else 1)


def _time(
    tower: Tower,
    planned: PlannedPass,
    settings: MemorySettings,
    device: TimingDevice,
    use: CacheUse,
    again: int,
) -> TowerTime:
    traced: Any = tower  # traced as a model is
    runs = trace_kernels(traced, planned.request, settings.execution(), dtype=settings.dtype)
    rank = rank_kernels(planned, settings, ONE_DEVICE, use, runs)
    # the loss is that of the language model
    kernels = tuple(run for run in rank.kernels if run.path != LOSS)
    times = RankTimes(RankKernels(planned, kernels, rank.placement, rank.launched), device, settings)
    (stage,) = planned.stages(ONE_DEVICE)
    step = stage_step(times, ONE_DEVICE, stage, settings.grad_accum)
    rows = (*rows_of_stage(times, ONE_DEVICE, stage), *waits(times, ONE_DEVICE, stage, step.launching))
    named = tuple(_named(tower, row).scaled(again) for row in rows)
    flops, _ = planned.passed.flops()
    return TowerTime(step.scaled(again), named, float(flops))


def _planned(tower: Tower, medium: Medium, settings: MemorySettings) -> Iterator[PlannedPass]:
    """The passes of a tower as those of a whole model on one device."""
    phase: Phase = "train" if settings.phase == "train" else "forward"
    for request in tower.readings(Request(phase, settings.batch_size), medium):
        rows, _ = trace(tower.sized(medium), request)
        yield _as_model(tower, request, rows, settings)


def _as_model(tower: Tower, request: Request, rows: tuple[Row, ...], settings: MemorySettings) -> PlannedPass:
    rule = None
    if request.phase == "train" and settings.recompute != "none":
        from archcli.wings.serving.memory.training.losses import recomputed  # of training alone

        rule = recomputed(settings.recompute)
    encoder: Any = tower.model  # a TowerModel is a Model
    return PlannedPass(
        TracedModel(encoder),
        request,
        Pass(request.resolved(), rows),
        tuple(_weights(rows)),
        StagePlacement(encoder, [row.path for row in rows]),
        repeated_paths(rows, rule, settings.execution()),
        0,
        settings.width,
        settings.gradient_width,
    )


def _weights(rows: tuple[Row, ...]) -> Iterator[PlacedWeight]:
    """The weights of all layers; those that are alike as one tensor."""
    for row in rows:
        for name, shape in row.weights.items() if row.copies else ():
            trained = has_gradients(row)
            yield PlacedWeight(
                f"{row.path}.{name}", (int(row.copies), *shape), range(0), trained, False, first=True
            )


def _named(tower: Tower, row: PredictedRow) -> PredictedRow:
    """The row with the part of the whole model before its path."""
    if row.path.startswith(TOWER):
        return row._replace(path=f"{tower.part}.{row.path.removeprefix(TOWER)}")
    # mergers of single layers belong to the projector
    return row._replace(path=f"{GROUP}.{row.path}") if row.path.startswith("tap") else row


def seconds_by_part(model: Model, rows: Iterable[PredictedRow]) -> dict[str, float]:
    """Seconds of the kernels of the language model, of towers and of the projector."""
    parts = {GROUP, *(tower.part for tower in model.towers)}
    seconds: dict[str, float] = {}
    for row in rows:
        if row.path == HOST:  # launches of all parts
            continue
        first = row.path.partition(".")[0]
        part = first if first in parts else LANGUAGE_MODEL
        seconds[part] = seconds.get(part, 0.0) + row.seconds.expected
    return seconds
