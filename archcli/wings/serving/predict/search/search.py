"""The fastest plan of N devices that fits into their memory, and the runner-up.

Lower bounds of time and memory rule most candidates out before they are timed. Then, from the fastest on, the
memory is found exactly, as by `archcli memory`, until two candidates fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import fsum
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.prediction import all_batches, traced_plan
from archcli.wings.serving.predict.rank.kernels import NO_CHANGE, CacheUse, rank_kernels, traced_runs
from archcli.wings.serving.predict.rank.planned import PlannedPass, planned_pass
from archcli.wings.serving.predict.rank.rank_times import KnownTimes, RankTimes, TimingDevice
from archcli.wings.serving.predict.rank.stage_step import StageStep, stage_step
from archcli.wings.serving.predict.search.bounds import (
    Degrees,
    LeastMemory,
    LeastTime,
    WholeDegrees,
    degrees_of,
    of_pass,
    whole_degrees,
)
from archcli.wings.serving.predict.search.candidates import Candidate, of_replica

RankKey = tuple[Degrees, int]
"""Degrees and batch size: all that a rank's pass depends on, except recomputation."""
TracedRank = tuple[PlannedPass, Sequence[KernelRun]]
"""A rank's pass, whatever it recomputes, and its kernels."""


@dataclass(slots=True)
class PlanTimer:
    """Times candidates of a question on a device: expected seconds, or the floor without constants.

    The phase is the question's: a candidate that serves is timed by a decoded token of each sequence. Errors
    are ArchErrors for candidates that cannot be timed.
    """

    question: MemoryQuestion
    device: TimingDevice
    use: CacheUse = NO_CHANGE
    _times: dict[tuple[RankKey, str], RankTimes] = field(default_factory=dict)
    _traced: dict[RankKey, TracedRank] = field(default_factory=dict)
    _known: KnownTimes = field(default_factory=dict)
    _most: dict[WholeDegrees, tuple[int, int]] = field(default_factory=dict)
    _efficient: set[tuple[WholeDegrees, str]] = field(default_factory=set)
    _least: LeastTime = field(init=False)

    def __post_init__(self) -> None:
        self._least = LeastTime(self.question, self.device, self.use.native)

    def least(self, candidate: Candidate) -> float:
        """The first lower bound of a candidate's seconds; call it for all before `closer` of any."""
        whole = whole_degrees(candidate.plan)
        ep, batch = self._most.get(whole, (1, 1))
        self._most[whole] = max(ep, candidate.plan.ep), max(batch, of_replica(candidate))
        return self._least.seconds(candidate, replicas=False)

    def closer(self, candidate: Candidate) -> Iterator[float]:
        """Ever closer lower bounds; in training by the kernels of the most efficient rank of its degrees."""
        if candidate.settings.phase == "train":
            self._time_most_efficient(candidate, self.question.settings.recompute)
            yield self._least.seconds(candidate, replicas=False)
            self._time_most_efficient(candidate, candidate.settings.recompute)
        yield self._least.seconds(candidate)

    def _time_most_efficient(self, candidate: Candidate, recompute: str) -> None:
        """Time the rank of these degrees with the most ranks that share experts, and the largest batch."""
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
        if self.question.settings.phase != "train":
            return _parts(all_batches(times, plan).step)
        steps = [stage_step(times, plan, stage, settings.grad_accum) for stage in times.distinct(plan)]
        return _parts(max(steps, key=lambda step: step.total.expected))

    def _times_of(self, candidate: Candidate) -> RankTimes:
        plan, settings = candidate
        if settings.phase != self.question.settings.phase:
            # the last token that serving makes, with all others in the cache
            tokens = settings.tokens(self.question.model) + settings.new
            settings = settings.of_length(self.question.model, tokens)
            settings = replace(settings, phase=self.question.settings.phase, chunk=None)
        alike = degrees_of(plan), of_pass(candidate, self.question, self.device)
        key = alike, settings.recompute
        if key not in self._times:
            if alike not in self._traced:
                traced = traced_plan(plan, settings, self.device)
                planned = planned_pass(self.question.model, settings, traced)
                self._traced[alike] = planned, traced_runs(planned, settings)
            planned, runs = self._traced[alike]
            rank = rank_kernels(planned.repeating(settings), settings, plan, self.use, runs)
            self._times[key] = RankTimes(rank, self.device, settings, self._known)
            self._least.learn(candidate, self._times[key])
        return self._times[key]


def _parts(step: StageStep) -> dict[str, float]:
    """The seconds of a stage's step by part."""
    total, computing, waiting, recomputed = (seconds.expected for seconds in step[:4])
    return {
        "computing": computing - recomputed,
        "recomputing": recomputed,
        "bubble": waiting,
        "communication": total - computing - waiting,
    }


Parts = Mapping[str, float]
"""Seconds of a step or a pass by part: computing, recomputing, communication, the bubble."""


class TimedPlan(NamedTuple):
    """A candidate with its seconds by part."""

    candidate: Candidate
    parts: Parts

    @property
    def seconds(self) -> float:
        """Seconds of all parts."""
        return fsum(self.parts.values())


class DecidingPart(NamedTuple):
    """The part in which the slower of two plans loses most, and the seconds that it loses there."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The best plan and the runner-up, the best of other degrees; None where fewer fit.

    n_too_large: plans that do not fit, and by their lower bound may be faster than the best.
    too_large: of these the one with the least bound, if it is faster indeed.
    n_tried: all candidates.
    """

    best: TimedPlan | None
    runner_up: TimedPlan | None
    too_large: TimedPlan | None
    n_too_large: int
    n_tried: int

    def at_speed(self, speed: float) -> PlanChoice:
        """The choice with the times of an engine that reaches so much of its kernels' speed."""

        def timed(plan: TimedPlan | None) -> TimedPlan | None:
            return plan and plan._replace(parts={part: s / speed for part, s in plan.parts.items()})

        return replace(
            self, best=timed(self.best), runner_up=timed(self.runner_up), too_large=timed(self.too_large)
        )

    @property
    def decides(self) -> DecidingPart | None:
        """Why the best is faster than the runner-up; None without one."""
        if self.best is None or self.runner_up is None:
            return None
        ours, theirs = self.best.parts, self.runner_up.parts
        names = dict.fromkeys((*ours, *theirs))
        lost = {name: theirs.get(name, 0.0) - ours.get(name, 0.0) for name in names}
        part = max(lost, key=lambda name: lost[name])
        return DecidingPart(part, lost[part])


def best_plan(question: MemoryQuestion, candidates: Iterable[Candidate], timer: PlanTimer) -> PlanChoice:
    """The fastest candidate that fits into the question's device; any fits where it names none.

    Of equally fast ones the first. Raises the first ArchError of the timer where it times no candidate.
    """
    known, memory = list(candidates), FittingPlans(question)
    fitting: list[TimedPlan] = []
    too_large: list[Candidate] = []

    def may_fit(candidate: Candidate) -> bool:
        if memory.may_fit(candidate):
            return True
        too_large.extend([] if fitting else [candidate])
        return False

    # by time first: memory is asked about exactly, which traces each plan, only until two plans fit
    for timed in by_time(known, timer, may_fit):
        if fitting and _degrees(timed) == _degrees(fitting[0]):
            continue  # the best with other batches or more recomputation
        if memory.fits(timed.candidate):
            fitting.append(timed)
        elif not fitting:
            too_large.append(timed.candidate)
        if len(fitting) == 2:  # noqa: PLR2004
            break
    best, runner_up, *_ = (*fitting, None, None)
    return PlanChoice(best, runner_up, _faster(too_large, best, timer), len(too_large), len(known))


def _faster(too_large: Sequence[Candidate], best: TimedPlan | None, timer: PlanTimer) -> TimedPlan | None:
    """The candidate with the least bound of those that do not fit, if it is faster than the best."""
    if not too_large:
        return None
    candidate = min(too_large, key=lambda unfit: max(timer.closer(unfit)))
    first = TimedPlan(candidate, timer.parts(candidate))
    return first if best is None or first.seconds < best.seconds else None


def _degrees(timed: TimedPlan) -> Plan:
    """The plan, whatever its batches."""
    return replace(timed.candidate.plan, micro_batches=1)


def by_time(
    candidates: Sequence[Candidate], timer: PlanTimer, may_fit: Callable[[Candidate], bool]
) -> Iterator[TimedPlan]:
    """The candidates that may fit, the fastest first; each is timed only when it may be the next."""
    # a heap of (seconds or a lower bound, is timed, number, timed plan). Of equal seconds those not yet timed
    # come first, then the first in order; numbers differ, so that plans, which have no order, are never
    # compared
    waiting: list[tuple[float, bool, int, TimedPlan | None]] = [
        (timer.least(candidate), False, number, None) for number, candidate in enumerate(candidates)
    ]
    heapify(waiting)
    refused, any_timed = None, False
    while waiting:
        seconds, _, number, timed = heappop(waiting)
        if timed is not None:
            yield timed
            continue
        try:
            closer = next((least for least in timer.closer(candidates[number]) if least > seconds), None)
            if closer is not None:
                heappush(waiting, (closer, False, number, None))
                continue
            if not may_fit(candidates[number]):
                continue
            timed = TimedPlan(candidates[number], timer.parts(candidates[number]))
        except ArchError as error:
            refused = refused or error
            continue
        any_timed = True
        heappush(waiting, (timed.seconds, True, number, timed))
    if refused is not None and not any_timed:
        raise refused


@dataclass(slots=True)
class FittingPlans:
    """Tells which candidates fit into a device."""

    question: MemoryQuestion
    _least: LeastMemory = field(init=False)
    _too_many: dict[tuple[Plan, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._least = LeastMemory(self.question)

    def may_fit(self, candidate: Candidate) -> bool:
        """Whether a lower bound fits; after a plan that did not, none with a larger micro batch does."""
        device, (plan, settings) = self.question.device, candidate
        if device is None or settings.phase != "train":
            return True
        alike = replace(plan, micro_batches=1), settings.recompute
        if settings.batch_size >= self._too_many.get(alike, settings.batch_size + 1):
            return False
        if not self._least.fits(candidate, device.memory_bytes):
            self._too_many[alike] = int(settings.batch_size)
            return False
        return True

    def fits(self, candidate: Candidate) -> bool:
        """Whether the largest rank fits."""
        device, (plan, settings) = self.question.device, candidate
        if device is None:
            return True
        if not self.may_fit(candidate):
            return False
        try:
            fits = MemoryQuestion(self.question.model, settings, plan, device).fits()
        except ArchError:  # of settings that the plan leaves no tokens or layers for
            return False
        if not fits:
            self._too_many[replace(plan, micro_batches=1), settings.recompute] = int(settings.batch_size)
        return fits
