"""RankTimes: seconds of one rank on a device, computing by where kernels run, and sending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from archcli.launches.kernel import KernelCost
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.predict.communication.collective import Collective, Cover, Fabric
from archcli.measure.predict.communication.timing import Exposed, LinkPace, exposed, timed
from archcli.measure.predict.constants import FRAMEWORK, Origin, StepConstants, operation_calls
from archcli.measure.predict.rank.kernel import RankKernel
from archcli.measure.predict.rank.kernels import RankKernels, update_kernel
from archcli.measure.predict.rank.seconds import Seconds
from archcli.measure.predict.times import (
    ATTENTION,
    KernelClock,
    KernelTime,
    kind_of,
)
from archcli.recording.classes import TimeClass

KnownTimes = dict[tuple[KernelCost, TimeClass], tuple[KernelTime, str]]
"""Times of kernels and their kinds, by kernel and class."""
FORWARD, RECOMPUTED = "forward", "recomputed"


class TimingDevice(NamedTuple):
    """A device as time sees it: what its kernels and its links take."""

    clock: KernelClock
    fabric: Fabric

    def has_constants(self, dtype: str) -> bool:
        """Whether anything is known beyond its peaks."""
        return self.clock.efficiency.products(dtype) is not None

    def step_constants(self, settings: MemorySettings) -> StepConstants | None:
        """The constants of a training step in the settings' dtype; None of another pass."""
        return self.clock.efficiency.step(settings.dtype) if settings.phase == "train" else None

    def best_rate(self, settings: MemorySettings, low_dtype: str = "") -> float:
        """FLOP/s that no kernel of such a pass is expected to exceed; products may be in a `low_dtype`."""
        dtype = low_dtype or settings.dtype
        peak, efficiency = self.clock.rates.peak(dtype), self.clock.efficiency
        if low_dtype:
            # products are in the low dtype, attention stays in the model's
            return max(peak, self.clock.rates.peak(settings.dtype))
        products, attention = efficiency.products(dtype), efficiency.attention(dtype)
        step = self.step_constants(settings)
        if products is None:
            return peak
        if step is not None:
            return peak * max(products.compute * step.matrix_products, step.attention)
        # without constants of its own attention may reach the peak
        return peak * max(products.compute, attention.compute if attention else 1.0)

    def origin(self, settings: MemorySettings) -> Origin | None:
        """Where the constants of such a pass are from: of a training step, else of matrix products."""
        step, products = self.step_constants(settings), self.clock.efficiency.products(settings.dtype)
        return step.origin if step else products and products.origin


class StageTimes(NamedTuple):
    """Seconds of a stage's micro batch: forward and the rest; of both, attention and recomputed kernels."""

    forward: Seconds = Seconds()
    other: Seconds = Seconds()
    attention: Seconds = Seconds()
    recomputed: Seconds = Seconds()

    @property
    def all(self) -> Seconds:
        """Seconds of all of it."""
        return self.forward.plus(self.other)

    def plus(self, share: StageTimes, times: float) -> StageTimes:
        """With so many of a share."""
        return StageTimes(*(a.plus(b.scaled(times)) for a, b in zip(self, share, strict=True)))

    def with_run(self, run: TimedKernelRun) -> StageTimes:
        """With the runs of a kernel."""
        seconds = Seconds.of(run.time).scaled(run.kernel.times)
        sums = ["forward" if run.kernel.stage == FORWARD else "other"]
        sums += ["attention"] * (run.kind == ATTENTION) + ["recomputed"] * (run.kernel.stage == RECOMPUTED)
        return self._replace(**{name: getattr(self, name).plus(seconds) for name in sums})


class TimedKernelRun(NamedTuple):
    """A kernel of a rank, and the time of one launch."""

    kernel: RankKernel
    time: KernelTime
    kind: str


def calls(kernels: Iterable[RankKernel], device: TimingDevice, phase: str) -> Iterator[RankKernel]:
    """What the framework does to call operations; none where its time is not known."""
    if device.clock.efficiency.memory_bound(FRAMEWORK) is None:
        return
    for path, stage, kernel, times in operation_calls(kernels, phase):
        yield RankKernel(path, stage, kernel, TimeClass.FRAMEWORK, times)


class RankTimes:
    """The kernels of a rank with their times, summed by the layers that they stand for."""

    def __init__(
        self,
        rank: RankKernels,
        device: TimingDevice,
        settings: MemorySettings,
        known: KnownTimes | None = None,
    ) -> None:
        """Time every kernel; times go into `known` and come from there, of the same device and phase.

        Raises ArchError where the device states no peak of a product's dtype.
        """
        self._known: KnownTimes = {} if known is None else known
        self.rank, self.device, self.settings = rank, device, settings
        self.step = device.step_constants(settings)
        called = calls(rank.kernels, device, settings.phase)
        self.runs = [self._timed(kernel) for kernel in (*rank.kernels, *called)]
        self._of_stages: dict[Stage, StageTimes] = {}
        self._distinct: dict[tuple[int, int], tuple[Stage, ...]] = {}
        self._places: dict[object, tuple[str, StageTimes]] = {}
        for run in self.runs:
            # kernels of the same layers have the same share of every stage: added up once for all stages
            place = rank.placement.place(run.kernel.path)
            path, times = self._places.get(place, (run.kernel.path, StageTimes()))
            self._places[place] = path, times.with_run(run)

    def of_stage(self, stage: Stage) -> StageTimes:
        """The seconds of a stage's micro batch."""
        if stage not in self._of_stages:
            self._of_stages[stage] = self._sum(stage)
        return self._of_stages[stage]

    def distinct(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages of a plan that differ in how many of the rows they run."""
        key = plan.pp, plan.virtual_stages
        if key not in self._distinct:
            stages = self.rank.planned.stages(plan)
            alike: dict[object, Stage] = {}
            for stage in stages:
                alike.setdefault((stage.is_first, stage.is_last, self.of_stage(stage)), stage)
            self._distinct[key] = tuple(alike.values())
        return self._distinct[key]

    def _sum(self, stage: Stage) -> StageTimes:
        total = StageTimes()
        for path, times in self._places.values():
            share = self.rank.placement.share(path, stage)
            total = total.plus(times, float(share)) if share else total
        return total

    def runs_of(self, stage: Stage) -> Iterator[TimedKernelRun]:
        """The kernels that a stage runs, by the rows of counting."""
        placement = self.rank.placement
        for run in self.runs:
            share = float(placement.share(run.kernel.path, stage))
            if share:
                path = placement.counted_path(run.kernel.path)
                yield run._replace(kernel=run.kernel._replace(path=path, times=run.kernel.times * share))

    def update(self, plan: Plan, stage: Stage) -> TimedKernelRun:
        """The update of a stage's weights."""
        return self._timed(update_kernel(self.rank.planned, self.settings, plan, stage))

    def _timed(self, kernel: RankKernel) -> TimedKernelRun:
        """The kernel with its time: in a step by the constants of steps, if the device has any."""
        # layers and candidates of a search launch the same few kernels
        key = kernel.kernel, kernel.op_class
        if key not in self._known:
            self._known[key] = self._time(kernel)
        return TimedKernelRun(kernel, *self._known[key])

    def _time(self, kernel: RankKernel) -> tuple[KernelTime, str]:
        clock = self.device.clock
        time = clock.time(kernel.kernel, kernel.op_class)
        kind = kind_of(kernel.op_class, kernel.kernel.name)
        if not self.device.has_constants(self.settings.dtype):
            # products at their floor beside the rest as expected would be no time of either kind
            return time._replace(expected=None, low=None, high=None), kind
        if self.step is not None:
            from archcli.measure.predict.training import work_of  # of training alone

            expected = sum(work_of(kernel, clock).parts(self.step).values())
            low, high = (edge * expected for edge in (self.step.origin.low, self.step.origin.high))
            time = time._replace(expected=expected, low=low, high=high)
        return time, kind


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
        # the pipeline fills and drains once for each accumulation
        waiting = one.all.scaled((plan.pp - 1) / plan.virtual_stages * grad_accum)
    seconds, recomputed = computing.plus(waiting), one.recomputed.scaled(number)
    collectives = tuple(times.rank.planned.collectives(plan, stage, grad_accum))
    if not collectives:
        return StageStep(seconds, computing, waiting, recomputed, ())

    sent = sending(collectives, times, one, number)
    return StageStep(seconds.plus(sent.seconds), computing, waiting, recomputed, sent.communication)


OF_REPLICAS = ("weights", "gradients")
"""Purposes of the collectives that the constants of training steps were fitted with."""


class Sending(NamedTuple):
    """Seconds in which a rank sends and computes nothing, and the collectives one by one."""

    seconds: Seconds
    communication: tuple[Exposed, ...]


def sending(collectives: Sequence[Collective], times: RankTimes, one: StageTimes, number: int) -> Sending:
    """What a rank sends, beside the compute of so many micro batches."""
    device = times.device
    floor = exposed(timed(collectives, device.fabric), _covers(one, number, "floor"))
    least = sum(each.least_s for each in floor)
    if not device.has_constants(times.settings.dtype):
        return Sending(Seconds(least, least, least, sum(each.most_s for each in floor)), tuple(floor))
    exposures = list(_expected(collectives, times, _covers(one, number, "expected")))
    expected = sum(each.least_s for each, _ in exposures)
    low = sum(ranged.low for _, ranged in exposures)
    high = sum(ranged.high for _, ranged in exposures)
    return Sending(Seconds(least, expected, low, high), tuple(each for each, _ in exposures))


def _covers(one: StageTimes, number: int, kind: Literal["floor", "expected"]) -> Mapping[Cover, float]:
    """Seconds of the compute that may run while something is sent."""
    forward, other, attention = (number * getattr(seconds, kind) for seconds in one[:3])
    return {"forward": forward, "backward": other, "compute": forward + other, "attention": attention}


def _expected(
    collectives: Iterable[Collective], times: RankTimes, covers: Mapping[Cover, float]
) -> Iterator[tuple[Exposed, Seconds]]:
    """Collectives with what is exposed of them, by the constants of steps or of rings.

    What replicas send in a step has a constant of its own, which tells what compute hides; all else is what a
    ring reaches, behind the compute that may cover it.
    """
    step, fabric, others = times.step, times.device.fabric, []
    for collective in collectives:
        if step is None or collective.purpose not in OF_REPLICAS:
            ring = times.device.clock.efficiency.ring(collective.group.ranks)
            pace = LinkPace(ring.latency, ring.link) if ring else LinkPace()
            share = ring.range(float(collective.bytes / collective.times)) if ring else (1.0, 1.0)
            others.append((timed([collective], fabric, pace)[0], share))
            continue
        (on_paper,) = timed([collective], fabric)
        seconds, origin = on_paper.time_s / step.communication, step.origin
        low, high = origin.low * seconds, origin.high * seconds
        # a constant below 1 says that links are slower than on paper: what is exposed is under way
        taken = max(seconds, on_paper.time_s)
        yield Exposed(on_paper._replace(time_s=taken), seconds, taken), Seconds(0.0, seconds, low, high)
    shown = exposed([one for one, _ in others], covers)
    for each, (_, (low, high)) in zip(shown, others, strict=True):
        yield each, Seconds(0.0, each.least_s, low * each.least_s, high * each.most_s)
