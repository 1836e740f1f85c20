"""StageStep: a pass or a training step of one stage's rank, with what it sends and how long it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.rank.seconds import Seconds
from archcli.measure.predict.rank.times import RankTimes

if TYPE_CHECKING:
    from archcli.measure.predict.communication.timing import Exposed


class StageStep(NamedTuple):
    """What a rank of a stage takes: in all, to compute, to wait, and what it sends.

    `recomputed` is the part of the computing that the backward repeats.
    """

    total: Seconds
    computing: Seconds
    waiting: Seconds
    recomputed: Seconds
    communication: tuple[Exposed, ...]

    @property
    def exposed_s(self) -> float:
        """Expected seconds of communication in which nothing is computed."""
        return sum(one.least_s for one in self.communication)


def stage_step(times: RankTimes, plan: Plan, stage: Stage, grad_accum: int) -> StageStep:
    """The pass of a rank of a stage, or its step of `grad_accum` times the plan's micro batches.

    A stage waits (p - 1) / v micro batches as long as its own, arXiv:2104.04473 section 2.2.
    Raises ArchError for a link whose rate is not known.
    """
    one, training = times.of_stage(stage), times.settings.phase == "train"
    number = plan.micro_batches * grad_accum if training else 1
    computing, waiting = one.all.scaled(number), Seconds()
    if training:
        computing = computing.plus(Seconds.of(times.update(plan, stage).time))
        waiting = one.all.scaled((plan.pp - 1) / plan.virtual_stages * grad_accum)
    seconds, recomputed = computing.plus(waiting), one.recomputed.scaled(number)
    collectives = tuple(times.rank.planned.collectives(plan, stage, grad_accum))
    if not collectives:
        return StageStep(seconds, computing, waiting, recomputed, ())
    from archcli.measure.predict.rank.sending import sending  # of several devices alone

    sent = sending(collectives, times, one, number)
    return StageStep(seconds.plus(sent.seconds), computing, waiting, recomputed, sent.communication)
