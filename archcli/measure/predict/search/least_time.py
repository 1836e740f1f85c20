"""LeastTime: seconds that a plan takes at least, by FLOPs, bytes sent and times of other plans.

The mean over the stages of a pipeline, which the slowest does not go below: computing, and what is sent that
nothing can hide, as if no message had a latency. Computing takes what matrix products do at the best rate
there is. Once kernels are timed it takes what they do: to train, a sequence takes no less in a smaller batch,
nor where fewer ranks share the experts, as then weights are read and launches are made for fewer tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.passes import count_pass
from archcli.measure.predict.communication.collective import Collective
from archcli.measure.predict.communication.planned import PlannedPass, planned_pass
from archcli.measure.predict.communication.replicas import of_replicas
from archcli.measure.predict.communication.stages import bubble_share
from archcli.measure.predict.communication.timing import LinkPace, timed
from archcli.measure.predict.rank.times import TimingDevice
from archcli.measure.predict.search.candidates import Candidate, of_replica

Degrees = tuple[int, bool, int, int]
"""tp, sp, ep and cp."""
WholeDegrees = tuple[int, bool, int]
"""tp, sp and cp: of plans whose ranks have the same, but for experts."""


class TimedSequence(NamedTuple):
    """Seconds of computing for a sequence in a batch of a rank, where `ep` ranks share the experts."""

    ep: int
    batch: int
    seconds: float


@dataclass(slots=True)
class LeastTime:
    """Tells how long candidates of a question take at least."""

    question: MemoryQuestion
    device: TimingDevice
    low_dtype: str = ""
    _products: float | None = None
    _timed: dict[WholeDegrees, list[TimedSequence]] = field(default_factory=dict)
    _planned: dict[Degrees, PlannedPass] = field(default_factory=dict)
    _waited: dict[Degrees, float] = field(default_factory=dict)
    _replicas: dict[Plan, tuple[float, float]] = field(default_factory=dict)

    def seconds(self, candidate: Candidate) -> float:
        """Seconds of a pass, or of a step."""
        plan, settings = candidate
        training, batch = settings.phase == "train", of_replica(candidate)
        batches = settings.grad_accum * plan.micro_batches if training else 1
        computing = self._computing(plan, batch) * batch * batches / plan.pp
        sent = self._waited_for(plan) * batch * batches
        if training:
            once, each = self._of_replicas(plan, settings)
            sent += once + batches * each
        return float(computing * (1 + bubble_share(plan)) + sent / plan.pp)

    def learn(self, plan: Plan, batch: int, seconds: float) -> None:
        """Take note of the seconds in which a rank of all layers computes a batch."""
        timed_sequence = TimedSequence(plan.ep, batch, seconds / batch)
        self._timed.setdefault(whole_degrees(plan), []).append(timed_sequence)

    def _computing(self, plan: Plan, batch: int) -> float:
        """Seconds of computing for a sequence in a batch of a rank of all layers."""
        known = self._timed.get(whole_degrees(plan), ())
        timed = (one.seconds for one in known if self._is_no_more(one, plan, batch))
        return max(self._of_sequence() / (plan.tp * plan.cp), *timed, 0.0)

    def _is_no_more(self, known: TimedSequence, plan: Plan, batch: int) -> bool:
        """Whether what is known of a rank holds for one of the plan at least.

        Inference is so short that what ranks do to share experts may outweigh what they gain; and a small
        batch may lie in a cache.
        """
        if self.question.settings.phase != "train" or self.device.clock.rates.cache is not None:
            return (known.ep, known.batch) == (plan.ep, batch)
        return known.ep >= plan.ep and known.batch >= batch

    def _of_sequence(self) -> float:
        """Seconds of the matrix products of one sequence on one device."""
        if self._products is None:
            request = self._alone().request(self.question.model)
            flops = float(count_pass(self.question.model, request).flops()[0])
            self._products = flops / self.device.best_rate(self.question.settings, self.low_dtype)
        return self._products

    def _alone(self) -> MemorySettings:
        """The settings with one sequence, and nothing run again."""
        return replace(self.question.settings, batch_size=1, recompute="none")

    def _shared(self, plan: Plan) -> PlannedPass:
        """The pass of one sequence of a rank, by the degrees that it depends on."""
        key = plan.tp, plan.sp, plan.ep, plan.cp
        if key not in self._planned:
            of_one = replace(plan, pp=1, micro_batches=1, virtual_stages=1, schedule="1f1b")
            self._planned[key] = planned_pass(self.question.model, self._alone(), of_one)
        return self._planned[key]

    def _waited_for(self, plan: Plan) -> float:
        """Seconds of what a rank sends of one sequence and waits for: nothing is computed meanwhile."""
        key = plan.tp, plan.sp, plan.ep, plan.cp
        if key not in self._waited:
            planned = self._shared(plan)
            of_rows = planned.of_micro_batch(plan, all_layers(planned))
            self._waited[key] = self._sending(one for one in of_rows if not one.cover)
        return self._waited[key]

    def _of_replicas(self, plan: Plan, settings: MemorySettings) -> tuple[float, float]:
        """Seconds of what replicas send once a step and for each micro batch, as far as none is hidden."""
        constants = self.device.step_constants(settings)
        if constants is None:
            return 0.0, 0.0
        key = replace(plan, pp=1, micro_batches=1, virtual_stages=1, schedule="1f1b")
        if key not in self._replicas:
            planned = self._shared(plan)
            one, two = (
                sum(each.time_s for each in timed(self._of_step(planned, key, n), self.device.fabric))
                for n in (1, 2)
            )
            self._replicas[key] = (
                (2 * one - two) / constants.communication,
                (two - one) / constants.communication,
            )
        return self._replicas[key]

    def _of_step(self, planned: PlannedPass, plan: Plan, micro_batches: int) -> Iterator[Collective]:
        return of_replicas(planned.weights, plan, all_layers(planned), planned.width, micro_batches)

    def _sending(self, collectives: Iterable[Collective]) -> float:
        """Seconds of the bytes alone, at the share of the rate that rings reach."""
        seconds = 0.0
        for one in collectives:
            ring = self.device.clock.efficiency.ring(one.group.ranks) if self._has_constants else None
            pace = LinkPace(0.0, ring.link if ring else 1.0)
            seconds += sum(each.time_s for each in timed([one], self.device.fabric, pace))
        return seconds

    @property
    def _has_constants(self) -> bool:
        return self.device.has_constants(self.question.settings.dtype)


def whole_degrees(plan: Plan) -> WholeDegrees:
    """The degrees that split what is no expert."""
    return plan.tp, plan.sp, plan.cp


def all_layers(planned: PlannedPass) -> Stage:
    """All of a model as one stage."""
    return Stage(0, (range(planned.placement.n_layers),))
