"""PlanTimer: the seconds of candidates as they are predicted, with what plans share traced once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from archcli.kernels import KernelRun
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.communication.planned import PlannedPass, planned_pass
from archcli.measure.predict.rank.kernels import NO_CHANGE, CacheUse, rank_kernels, traced_runs
from archcli.measure.predict.rank.step import StageStep, stage_step
from archcli.measure.predict.rank.times import KnownTimes, RankTimes, TimingDevice
from archcli.measure.predict.search.candidates import Candidate, of_replica
from archcli.measure.predict.search.least_time import LeastTime, WholeDegrees, whole_degrees

RankKey = tuple[int, bool, int, int, int, str]
"""tp, sp, ep, cp, batch size and recomputation: what a rank's pass depends on."""
TracedRank = tuple[PlannedPass, Sequence[KernelRun]]
"""A rank's pass, whatever it recomputes, and its kernels."""


@dataclass(slots=True)
class PlanTimer:
    """Tells how long candidates of a question take on a device, expected or without constants at least."""

    question: MemoryQuestion
    device: TimingDevice
    use: CacheUse = NO_CHANGE
    _times: dict[RankKey, RankTimes] = field(default_factory=dict)
    _traced: dict[tuple[int, ...], TracedRank] = field(default_factory=dict)
    _known: KnownTimes = field(default_factory=dict)
    _most: dict[WholeDegrees, tuple[int, int]] = field(default_factory=dict)
    _efficient: set[tuple[WholeDegrees, str]] = field(default_factory=set)
    _least: LeastTime = field(init=False)

    def __post_init__(self) -> None:
        self._least = LeastTime(self.question, self.device, self.use.low_dtype)

    def least(self, candidate: Candidate) -> float:
        """Seconds that it takes at least; all candidates are asked about before the first is timed."""
        whole = whole_degrees(candidate.plan)
        ep, batch = self._most.get(whole, (1, 1))
        self._most[whole] = max(ep, candidate.plan.ep), max(batch, of_replica(candidate))
        return self._least.seconds(candidate, replicas=False)

    def closer(self, candidate: Candidate) -> Iterator[float]:
        """The same, ever closer: of training by kernels of the most efficient rank that splits as much."""
        if candidate.settings.phase == "train":
            self._time_most_efficient(candidate, self.question.settings.recompute)
            yield self._least.seconds(candidate, replicas=False)
            self._time_most_efficient(candidate, candidate.settings.recompute)
        yield self._least.seconds(candidate)

    def _time_most_efficient(self, candidate: Candidate, recompute: str) -> None:
        """Time the rank that splits as much, with the most ranks that share experts and the largest batch."""
        plan, settings = candidate
        key = whole_degrees(plan), recompute
        if key in self._efficient:
            return
        self._efficient.add(key)
        ep, batch = self._most[whole_degrees(plan)]
        alike = Plan(ep, tp=plan.tp, sp=plan.sp, ep=ep, cp=plan.cp)
        self._times_of(Candidate(alike, replace(settings, batch_size=batch, recompute=recompute)))

    def parts(self, candidate: Candidate) -> dict[str, float]:
        """Its seconds: computing, recomputing, communication and the bubble."""
        plan, settings = candidate
        times = self._times_of(candidate)
        steps = [stage_step(times, plan, stage, settings.grad_accum) for stage in times.distinct(plan)]
        expected = self.device.has_constants(settings.dtype)
        return _parts(max(steps, key=lambda step: step.total.told(expected=expected)), expected=expected)

    def _times_of(self, candidate: Candidate) -> RankTimes:
        plan, settings = candidate
        alike = plan.tp, plan.sp, plan.ep, plan.cp, of_replica(candidate)
        key = (*alike, settings.recompute)
        if key not in self._times:
            if alike not in self._traced:
                planned = planned_pass(self.question.model, settings, plan)
                self._traced[alike] = planned, traced_runs(planned, settings)
            planned, runs = self._traced[alike]
            rank = rank_kernels(planned.repeating(settings), settings, plan, self.use, runs)
            self._times[key] = RankTimes(rank, self.device, settings, self._known)
            self._least.learn(candidate, self._times[key])
        return self._times[key]


def _parts(step: StageStep, *, expected: bool) -> dict[str, float]:
    """The seconds of a stage's step by what takes them."""
    total, computing, waiting, recomputed = (seconds.told(expected=expected) for seconds in step[:4])
    return {
        "computing": computing - recomputed,
        "recomputing": recomputed,
        "bubble": waiting,
        "communication": total - computing - waiting,
    }
