"""LeastTime: seconds that a plan takes at least, from FLOPs and bytes sent; no kernel is traced.

The mean over the stages of a pipeline, which the slowest does not go below: the architecture's matrix
products at the best rate there is, and what is sent that nothing can hide, as if no message had a latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

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
from archcli.measure.predict.search.candidates import Candidate

Degrees = tuple[int, bool, int, int]
"""tp, sp, ep and cp."""


@dataclass(slots=True)
class LeastTime:
    """Tells how long candidates of a question take at least."""

    question: MemoryQuestion
    device: TimingDevice
    low_dtype: str = ""
    _flops: float | None = None
    _planned: dict[Degrees, PlannedPass] = field(default_factory=dict)
    _waited: dict[Degrees, float] = field(default_factory=dict)
    _replicas: dict[Plan, tuple[float, float]] = field(default_factory=dict)

    def seconds(self, candidate: Candidate) -> float:
        """Seconds of a pass, or of a step."""
        plan, settings = candidate
        training = settings.phase == "train"
        batches = settings.grad_accum * plan.micro_batches if training else 1
        batch = settings.batch_size if training else -(-settings.batch_size // plan.dp)
        rate = plan.tp * plan.cp * plan.pp * self.device.best_rate(settings, self.low_dtype)
        computing = self._of_sequence() * batch * batches / rate
        sent = self._waited_for(plan) * batch * batches
        if training:
            once, each = self._of_replicas(plan, settings)
            sent += once + batches * each
        return float(computing * (1 + bubble_share(plan)) + sent / plan.pp)

    def _of_sequence(self) -> float:
        """FLOPs of the matrix products of one sequence."""
        if self._flops is None:
            request = self._alone().request(self.question.model)
            self._flops = float(count_pass(self.question.model, request).flops()[0])
        return self._flops

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
            of_rows = planned.of_micro_batch(plan, _all_layers(planned))
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
        return of_replicas(planned.weights, plan, _all_layers(planned), planned.width, micro_batches)

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


def _all_layers(planned: PlannedPass) -> Stage:
    """All of a model as one stage."""
    return Stage(0, (range(planned.placement.n_layers),))
