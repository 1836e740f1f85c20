"""PredictedRow: the launches of a kernel in a pass, and the rows of a stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.constants import Bound
from archcli.wings.serving.predict.rank.rank_times import RankTimes
from archcli.wings.serving.predict.times import Seconds
from archcli.wings.serving.recorded.classes import TimeClass

HOST: Bound = "host"
BUS: Bound = "bus"


class PredictedRow(NamedTuple):
    """All launches of one kernel of a row in a pass or a step.

    path, stage: of the row.
    kernel, op_class: name and class of the kernel.
    times: the number of launches.
    flops, bytes, seconds: of all launches.
    bound_by: what limits it, `compute` or `memory`.
    """

    path: str
    stage: str
    kernel: str
    op_class: str
    times: float
    flops: float
    bytes: float
    seconds: Seconds
    bound_by: Bound

    def plus(self, further: PredictedRow) -> PredictedRow:
        """The sum of two rows of the same path and kernel."""
        path, stage, kernel, op_class, times, flops, moved, seconds, bound_by = self
        sums = times + further.times, flops + further.flops, moved + further.bytes
        return PredictedRow(path, stage, kernel, op_class, *sums, seconds.plus(further.seconds), bound_by)

    def scaled(self, number: float) -> PredictedRow:
        """The row of `number` passes."""
        if number == 1:
            return self
        path, stage, kernel, op_class, times, flops, moved, seconds, bound_by = self
        sums = number * times, number * flops, number * moved
        return PredictedRow(path, stage, kernel, op_class, *sums, seconds.scaled(number), bound_by)

    def record(self) -> dict[str, object]:
        """The row by JSON's keys; seconds are the expected ones, or the floor."""
        return {
            "path": self.path,
            "stage": self.stage,
            "kernel": self.kernel,
            "class": self.op_class,
            "times": self.times,
            "flops": self.flops,
            "bytes": self.bytes,
            "time_s": self.seconds.expected,
            "floor_s": self.seconds.floor,
            "bound_by": self.bound_by,
        }


def rows_of_stage(times: RankTimes, plan: Plan, stage: Stage) -> Iterator[PredictedRow]:
    """The kernels of a stage's pass or step, equal ones of a row together."""
    settings = times.settings
    training = settings.phase == "train"
    updates = (times.update(plan, stage),) if training else ()
    for run, time in (*times.runs_of(stage, plan.micro_batches_of(settings)), *updates):
        path, moment, kernel, op_class, number = run
        # a call of an operation (framework) writes the same bytes as its kernels: count them once
        moved = 0 if op_class == TimeClass.FRAMEWORK else number * kernel.bytes
        flops, seconds = number * kernel.flops, time.seconds.scaled(number)
        yield PredictedRow(path, moment, kernel.name, op_class, number, flops, moved, seconds, time.bound_by)


def waits(times: RankTimes, plan: Plan, stage: Stage, waiting: Seconds) -> Iterator[PredictedRow]:
    """The row of a rank's waiting for a host that is slower than its kernels; none otherwise."""
    if waiting.expected:
        parts = (times.rank.part(run, stage) for run in times.rank.launched)
        number = plan.micro_batches_of(times.settings) * sum(part.times for part in parts if part)
        of_host = (HOST, HOST, "launches", TimeClass.FRAMEWORK)
        yield PredictedRow(*of_host, number, 0.0, 0.0, waiting, HOST)


def bus_row(phase: str, number: float, moved: float, seconds: Seconds) -> PredictedRow:
    """The row of copies over the bus between RAM and a device."""
    return PredictedRow(BUS, phase, "copy", TimeClass.MOVEMENT, number, 0.0, moved, seconds, BUS)
