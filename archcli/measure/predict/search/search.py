"""The fastest plan of N devices that fits into their memory, and the runner-up with what decides.

All candidates are timed; memory is asked about from the fastest on, first by a lower bound
and by what is known of larger micro batches, then exactly as `archcli memory` answers it, until two fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.search.candidates import Candidate
from archcli.measure.predict.search.least_memory import LeastMemory

Seconds = Mapping[str, float]
"""Seconds of a step or a pass by what takes them: computing, communication, the bubble."""
StepTimer = Callable[[Candidate], Seconds]
"""Tells how long a candidate takes; ArchError where that is not known."""


class TimedPlan(NamedTuple):
    """A candidate with its seconds, by what takes them."""

    candidate: Candidate
    parts: Seconds

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
    """The best plan and the runner-up, None where fewer fit.

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
    timed, refused = [], None
    for candidate in candidates:
        try:
            timed.append(TimedPlan(candidate, timer(candidate)))
        except ArchError as error:
            refused = refused or error
    if refused is not None and not timed:
        raise refused
    memory, fitting, too_large = FittingPlans(question), [], []
    for one in sorted(timed, key=lambda one: one.seconds):
        if memory.fits(one.candidate):
            fitting.append(one)
        elif not fitting:
            too_large.append(one)
        if len(fitting) == 2:  # noqa: PLR2004
            break
    best, runner_up, *_ = (*fitting, None, None)
    return PlanChoice(best, runner_up, next(iter(too_large), None), len(too_large), len(timed))


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
