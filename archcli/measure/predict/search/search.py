"""The fastest plan of N devices that fits into their memory, and the runner-up with what decides.

Candidates are timed as far as what they take at least does not rule them out. Memory is asked about from
the fastest on, first by a lower bound and by what is known of larger micro batches, then exactly as `archcli
memory` answers it, until two fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.search.candidates import Candidate
from archcli.measure.predict.search.least_memory import LeastMemory

Parts = Mapping[str, float]
"""Seconds of a step or a pass by what takes them: computing, communication, the bubble."""


class StepTimer(Protocol):
    """Tells how long candidates take. Raises ArchError for one of which that is not known."""

    def least(self, candidate: Candidate) -> float:
        """Seconds that it takes at least, found quickly."""

    def parts(self, candidate: Candidate) -> Parts:
        """Its seconds, by what takes them."""


class TimedPlan(NamedTuple):
    """A candidate with its seconds, by what takes them."""

    candidate: Candidate
    parts: Parts

    @property
    def seconds(self) -> float:
        """Seconds in all."""
        return sum(self.parts.values())


class DecidingPart(NamedTuple):
    """What decides between two plans: the part in which the slower one loses most, and how many seconds."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The best plan and the runner-up, the best of other degrees; None where fewer fit.

    `too_large` is the fastest of the `n_too_large` plans that are faster than the best and do not fit; there
    were `n_tried` plans.
    """

    best: TimedPlan | None
    runner_up: TimedPlan | None
    too_large: TimedPlan | None
    n_too_large: int
    n_tried: int

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


def best_plan(question: MemoryQuestion, candidates: Iterable[Candidate], timer: StepTimer) -> PlanChoice:
    """The fastest candidate that fits into the question's device; any fits where it names none.

    Of equally fast ones the first. Raises the first ArchError of the timer where it times no candidate.
    """
    known = list(candidates)
    memory = FittingPlans(question)
    fitting: list[TimedPlan] = []
    too_large: list[TimedPlan] = []
    for one in by_time(known, timer):
        if fitting and _degrees(one) == _degrees(fitting[0]):
            continue  # the best with other batches or more recomputation
        if memory.fits(one.candidate):
            fitting.append(one)
        elif not fitting:
            too_large.append(one)
        if len(fitting) == 2:  # noqa: PLR2004
            break
    best, runner_up, *_ = (*fitting, None, None)
    return PlanChoice(best, runner_up, next(iter(too_large), None), len(too_large), len(known))


def _degrees(timed: TimedPlan) -> Plan:
    """The plan, whatever its batches."""
    return replace(timed.candidate.plan, micro_batches=1)


def by_time(candidates: Sequence[Candidate], timer: StepTimer) -> Iterator[TimedPlan]:
    """The candidates from the fastest on; one is timed when it may be the next."""
    waiting: list[tuple[float, bool, int, TimedPlan | None]] = [
        (timer.least(candidate), False, number, None) for number, candidate in enumerate(candidates)
    ]
    heapify(waiting)
    refused, any_timed = None, False
    while waiting:
        _, _, number, timed = heappop(waiting)
        if timed is not None:
            yield timed
            continue
        try:
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

    def fits(self, candidate: Candidate) -> bool:
        """Whether the largest rank fits. What did not with a micro batch does not with a larger one."""
        device, (plan, settings) = self.question.device, candidate
        if device is None:
            return True
        alike = replace(plan, micro_batches=1), settings.recompute
        if settings.batch_size >= self._too_many.get(alike, settings.batch_size + 1):
            return False
        if self._fits(candidate, device):
            return True
        self._too_many[alike] = int(settings.batch_size)
        return False

    def _fits(self, candidate: Candidate, device: DeviceMemory) -> bool:
        plan, settings = candidate
        if settings.phase == "train" and not self._least.fits(candidate, device.memory_bytes):
            return False
        asked = MemoryQuestion(self.question.model, settings, plan, device)
        try:
            return asked.fits()
        except ArchError:  # of settings that the plan leaves no tokens or layers for
            return False
