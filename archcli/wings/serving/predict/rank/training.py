"""Seconds of a training step: kernels of each micro batch, recomputed ones, communication, the update.

A step is a sum of four parts, each with a constant of its own (`StepConstants`): matrix products,
memory-bound kernels, fused attention, and communication.
"""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

from archcli.modules import Model
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric, timed
from archcli.wings.serving.predict.constants import Bound, StepConstants
from archcli.wings.serving.predict.rank.kernels import RankKernels, rank_kernels, update_kernel
from archcli.wings.serving.predict.rank.planned import planned_pass
from archcli.wings.serving.predict.times import ATTENTION, PRODUCTS, KernelClock, KernelTime, Seconds

BINDS: dict[str, Bound] = {
    "products": "compute",
    "attention": "compute",
    "memory_bound": "memory",
    "communication": "link",
}


class StepWork(NamedTuple):
    """The seconds of a step before its constants are applied.

    floor: all kernels at the bare roofline.
    products: matrix products as if timed alone.
    memory_bound: the bytes of all other kernels, at the bandwidth.
    attention: fused attention, at its roofline.
    communication: all collectives, at the rate on paper.
    """

    floor: float = 0.0
    products: float = 0.0
    memory_bound: float = 0.0
    attention: float = 0.0
    communication: float = 0.0

    def __add__(self, further: StepWork) -> StepWork:  # type: ignore[override]
        """The sum of both."""
        return StepWork(*(a + b for a, b in zip(self, further, strict=True)))

    def scaled(self, times: float) -> StepWork:
        """The work `times` as often."""
        return StepWork(*(times * seconds for seconds in self))

    def parts(self, constants: StepConstants) -> dict[str, float]:
        """Expected seconds of the four parts."""
        return {
            "products": self.products / constants.matrix_products,
            "memory_bound": self.memory_bound / constants.memory_bound,
            "attention": self.attention / constants.attention,
            "communication": self.communication / constants.communication,
        }

    def seconds(self, constants: StepConstants | None) -> Seconds:
        """Seconds of the step; at the floor, compute and communication overlap completely."""
        floor = max(self.floor, self.communication)
        if constants is None:
            return Seconds.at_limit(floor)
        expected, origin = fsum(self.parts(constants).values()), constants.origin
        return Seconds.within(floor, expected, origin.low, origin.high)

    def bound_by(self, constants: StepConstants | None) -> Bound:
        """The bound of the longest of the four parts."""
        parts = self._asdict() if constants is None else self.parts(constants)
        return BINDS[max(BINDS, key=parts.__getitem__)]


def training_work(
    model: Model, settings: MemorySettings, plan: Plan, clock: KernelClock, fabric: Fabric
) -> StepWork:
    """The work of a step on the busiest device: `grad_accum` micro batches, or those of the pipeline.

    Raises ArchError for a plan that the model cannot have, and for a link whose rate is not known.
    """
    planned = planned_pass(model, settings, plan)
    rank = rank_kernels(planned, settings, plan)
    works = [_of_stage(rank, settings, plan, stage, clock, fabric) for stage in planned.stages(plan)]
    # minus the floor: it is a second count of the same kernels
    return max(works, key=lambda work: sum(work) - work.floor)


def _of_stage(
    rank: RankKernels,
    settings: MemorySettings,
    plan: Plan,
    stage: Stage,
    clock: KernelClock,
    fabric: Fabric,
) -> StepWork:
    """The work of one stage: its micro batches, the bubble around them, what it sends, and the update."""
    work = StepWork()
    for run in rank.of_stage(stage):
        work += work_of(clock.time(run.kernel, run.op_class)).scaled(run.times)
    # each gradient accumulation fills and drains the pipeline again, which takes `waited` micro batches
    work = work.scaled((plan.micro_batches + plan.waited) * settings.grad_accum)
    update = update_kernel(rank.planned, settings, plan, stage)
    work += work_of(clock.time(update.kernel, update.op_class))
    collectives = timed(rank.planned.collectives(plan, stage, settings.grad_accum), fabric)
    return work._replace(communication=sum(collective.time_s for collective in collectives))


def work_of(time: KernelTime) -> StepWork:
    """The work of one launch of a kernel, by its time alone."""
    floor = time.seconds.floor
    if time.kind == PRODUCTS:
        return StepWork(floor, products=time.seconds.expected)
    if time.kind == ATTENTION:
        return StepWork(floor, attention=floor)
    return StepWork(floor, memory_bound=floor)
