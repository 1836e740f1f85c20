"""Seconds of a training step: kernels of each micro batch, recomputed ones, communication, the update.

A step is a sum of four parts, each with a constant of its own (`StepConstants`): matrix products, kernels
that memory bounds, attention in one kernel, and communication. What a model does not say is taken at its
least: a loss that reads the logits twice and writes their gradient, and AdamW in one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from archcli.arith import prod
from archcli.kernels import KernelRun, trace_kernels
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.shares import shares
from archcli.measure.predict.communication.fabric import Fabric
from archcli.measure.predict.communication.planned import PlannedPass, planned_pass
from archcli.measure.predict.communication.timing import timed
from archcli.measure.predict.constants import StepConstants
from archcli.measure.predict.terms import Bound
from archcli.measure.predict.times import ATTENTION, PRODUCTS, KernelClock, KernelTime, kind_of
from archcli.modules import Model
from archcli.modules.layers import LayerIndex

LOSS_PASSES = 3
"""Logits read, logits read again, and their gradient written."""
UPDATE_PASSES = 7
"""AdamW: weight, gradient and two moments read, all but the gradient written."""
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
    runs = trace_kernels(planned.model, planned.request, settings.execution(), dtype=settings.dtype)
    by_path = _by_path(planned, runs, clock)
    return max(
        (_of_stage(planned, by_path, settings, plan, stage, clock, fabric) for stage in planned.stages(plan)),
        key=lambda work: sum(work) - work.floor,
    )


def _by_path(planned: PlannedPass, runs: Iterable[KernelRun], clock: KernelClock) -> dict[str, StepWork]:
    """The work of a micro batch by the counted row whose kernels they are, recomputed ones included."""
    layers = LayerIndex(planned.model)
    by_path: dict[str, StepWork] = {}
    for run in runs:
        path = layers.counted_path(run.path)
        times = 2 if run.stage == "forward" and path in planned.repeated else 1
        by_path[path] = by_path.get(path, StepWork()) + work_of(run, clock).scaled(times * run.times)
    return by_path


def _of_stage(
    planned: PlannedPass,
    by_path: Mapping[str, StepWork],
    settings: MemorySettings,
    plan: Plan,
    stage: Stage,
    clock: KernelClock,
    fabric: Fabric,
) -> StepWork:
    """The work of one stage: its micro batches, the bubble around them, what it sends, and the update."""
    work = StepWork()
    for path, of_row in by_path.items():
        work += of_row.scaled(float(planned.placement.share(path, stage)))
    if stage.is_last:
        logits = prod(planned.rows[-1].outputs[0])
        work += _moved(LOSS_PASSES * float(logits) * float(planned.width), clock)
    bubble = (plan.pp - 1) / plan.virtual_stages
    work = work.scaled((plan.micro_batches + bubble) * settings.grad_accum)
    held = shares(plan, planned.weights, stage).states
    work += _moved(UPDATE_PASSES * held * float(planned.width), clock)
    collectives = timed(planned.collectives(plan, stage, settings.grad_accum), fabric)
    return work._replace(communication=sum(one.time_s for one in collectives))


def _moved(moved: float, clock: KernelClock) -> StepWork:
    seconds = moved / clock.rates.bandwidth
    return StepWork(floor=seconds, memory_bound=seconds)


def work_of(run: KernelRun, clock: KernelClock) -> StepWork:
    """The work of one run of a kernel."""
    time = clock.time(run.kernel, run.op_class)
    kind = kind_of(run.op_class, run.kernel.name)
    if kind == PRODUCTS:
        alone = time.floor if time.expected is None else time.expected
        return StepWork(time.floor, products=alone)
    if kind == ATTENTION:
        return StepWork(time.floor, attention=time.floor)
    return StepWork(time.floor, memory_bound=time.floor)
