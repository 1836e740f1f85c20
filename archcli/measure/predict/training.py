"""Seconds of a training step: kernels of each micro batch, recomputed ones, communication, the update.

A step is a sum of four parts, each with a constant of its own (`StepConstants`): matrix products, kernels
that memory bounds, attention in one kernel, and communication.
"""

from __future__ import annotations

from typing import NamedTuple

from archcli.launches.kernel import KernelRun
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.predict.communication.collective import Fabric
from archcli.measure.predict.communication.planned import planned_pass
from archcli.measure.predict.communication.timing import timed
from archcli.measure.predict.constants import Bound, StepConstants
from archcli.measure.predict.rank.kernel import RankKernel
from archcli.measure.predict.rank.kernels import RankKernels, rank_kernels, update_kernel
from archcli.measure.predict.times import ATTENTION, PRODUCTS, KernelClock, KernelTime, kind_of
from archcli.modules import Model

BINDS: dict[str, Bound] = {
    "products": "compute",
    "attention": "compute",
    "memory_bound": "memory",
    "communication": "link",
}


class StepWork(NamedTuple):
    """A step's seconds before its constants.

    `floor` is the bare roofline of all kernels. `products` are seconds of matrix products as if timed alone,
    `memory_bound` those of all other bytes at the bandwidth, `attention` of fused attention at its roofline,
    `communication` of what is sent at the rate on paper.
    """

    floor: float = 0.0
    products: float = 0.0
    memory_bound: float = 0.0
    attention: float = 0.0
    communication: float = 0.0

    def __add__(self, other: StepWork) -> StepWork:  # type: ignore[override]
        """Both, one after the other."""
        return StepWork(*(a + b for a, b in zip(self, other, strict=True)))

    def scaled(self, times: float) -> StepWork:
        """So many of it."""
        return StepWork(*(times * seconds for seconds in self))

    def parts(self, constants: StepConstants) -> dict[str, float]:
        """Expected seconds of the four parts."""
        return {
            "products": self.products / constants.matrix_products,
            "memory_bound": self.memory_bound / constants.memory_bound,
            "attention": self.attention / constants.attention,
            "communication": self.communication / constants.communication,
        }

    def time(self, constants: StepConstants | None) -> KernelTime:
        """Seconds of the step, whose floor hides all communication that compute can hide."""
        floor = max(self.floor, self.communication)
        if constants is None:
            return KernelTime(floor, None, None, None, self._binds(self._asdict()))
        parts = self.parts(constants)
        expected = sum(parts.values())
        low, high = constants.origin.low * expected, constants.origin.high * expected
        return KernelTime(floor, expected, low, high, self._binds(parts))

    def _binds(self, parts: dict[str, float]) -> Bound:
        """What the longest part is bound by."""
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
    # without the floor, which counts the same kernels a second time
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
    for kernel in rank.of_stage(stage):
        work += work_of(kernel, clock).scaled(kernel.times)
    bubble = (plan.pp - 1) / plan.virtual_stages
    # each accumulation fills and drains the pipeline anew
    work = work.scaled((plan.micro_batches + bubble) * settings.grad_accum)
    work += work_of(update_kernel(rank.planned, settings, plan, stage), clock)
    collectives = timed(rank.planned.collectives(plan, stage, settings.grad_accum), fabric)
    return work._replace(communication=sum(one.time_s for one in collectives))


def work_of(run: KernelRun | RankKernel, clock: KernelClock) -> StepWork:
    """The work of one run of a kernel."""
    time = clock.time(run.kernel, run.op_class)
    kind = kind_of(run.op_class, run.kernel.name)
    if kind == PRODUCTS:
        alone = time.floor if time.expected is None else time.expected
        return StepWork(time.floor, products=alone)
    if kind == ATTENTION:
        return StepWork(time.floor, attention=time.floor)
    return StepWork(time.floor, memory_bound=time.floor)
