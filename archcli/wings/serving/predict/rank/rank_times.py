"""RankTimes: seconds of one rank on a device: its kernels, summed by stage, and its communication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Literal, NamedTuple

from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import (
    Collective,
    Cover,
    Exposed,
    Fabric,
    LinkPace,
    exposed,
    timed,
)
from archcli.wings.serving.predict.constants import FRAMEWORK, Origin, StepConstants
from archcli.wings.serving.predict.rank.host import Host
from archcli.wings.serving.predict.rank.kernels import RankKernels, operation_calls, update_kernel
from archcli.wings.serving.predict.times import ATTENTION, KernelClock, KernelTime, Seconds

if TYPE_CHECKING:
    from archcli.wings.serving.predict.engine_kernels.llamacpp import LlamaCppConstants

KnownTimes = dict[tuple[KernelCost, str], KernelTime]
"""Times of kernels by kernel and class."""
FORWARD, RECOMPUTED = "forward", "recomputed"


class TimingDevice(NamedTuple):
    """A device to time on: the clock of its kernels, its links, and the host that launches them.

    Without a `host` launches take no time of it. `whole_runs` are constants of passes, `ram` the RAM beside.
    """

    clock: KernelClock
    fabric: Fabric
    host: Host | None = None
    whole_runs: LlamaCppConstants | None = None
    ram: TimingDevice | None = None

    def of_pass(self, request: Request) -> TimingDevice:
        """The device with the constants of a pass."""
        if self.whole_runs is None:
            return self
        return self._replace(clock=self.clock._replace(efficiency=self.whole_runs.of_pass(request)))

    def has_constants(self, dtype: str) -> bool:
        """Whether constants of matrix products in a dtype are known, not only peaks."""
        return self.clock.efficiency.products(dtype) is not None

    def step_constants(self, settings: MemorySettings) -> StepConstants | None:
        """The constants of a training step in the settings' dtype; None for another pass."""
        return self.clock.efficiency.step(settings.dtype) if settings.phase == "train" else None

    def best_rate(self, settings: MemorySettings, native: str = "") -> float:
        """FLOP/s that no kernel of such a pass is expected to exceed; products may be in `native`."""
        dtype = native or settings.dtype
        peak, efficiency = self.clock.rates.peak(dtype), self.clock.efficiency
        if native:
            # products are in the native dtype, attention stays in the model's
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
        """The source of a pass's constants: those of a training step, else of matrix products."""
        step, products = self.step_constants(settings), self.clock.efficiency.products(settings.dtype)
        return step.origin if step else products and products.origin


class StageTimes(NamedTuple):
    """Seconds of a stage's micro batch: forward and other kernels; of both, attention and recomputed ones.

    `launching` is what the host takes meanwhile.
    """

    forward: Seconds = Seconds()
    other: Seconds = Seconds()
    attention: Seconds = Seconds()
    recomputed: Seconds = Seconds()
    launching: Seconds = Seconds()

    @property
    def kernels(self) -> Seconds:
        """Seconds of all kernels."""
        return self.forward.plus(self.other)

    @property
    def all(self) -> Seconds:
        """Seconds of all kernels, or of the host that launches them where it takes longer."""
        return self.kernels.overlapped(self.launching)

    def plus(self, share: StageTimes, times: float) -> StageTimes:
        """The sum with `times` times a share."""
        return StageTimes(*(a.plus(b.scaled(times)) for a, b in zip(self, share, strict=True)))

    def with_run(self, timed_run: TimedRun) -> StageTimes:
        """The sum with a kernel's runs."""
        run, time = timed_run
        seconds = time.seconds.scaled(run.times)
        sums = ["forward" if run.stage == FORWARD else "other"]
        sums += ["attention"] * (time.kind == ATTENTION) + ["recomputed"] * (run.stage == RECOMPUTED)
        return self._replace(**{name: getattr(self, name).plus(seconds) for name in sums})

    def with_launches(self, run: KernelRun, host: Host) -> StageTimes:
        """The sum with the host's launching of a kernel's runs."""
        return self._replace(launching=self.launching.plus(host.launch(run.stage).scaled(run.times)))


class TimedRun(NamedTuple):
    """A kernel of a rank, and the time of one launch."""

    run: KernelRun
    time: KernelTime


class RankTimes:
    """The kernels of a rank with their times, summed by the layers that they stand for."""

    def __init__(
        self,
        rank: RankKernels,
        device: TimingDevice,
        settings: MemorySettings,
        known: KnownTimes | None = None,
    ) -> None:
        """Time every kernel.

        `known` collects the times of kernels, to be shared by ranks of the same device and phase.
        Raises ArchError where the device states no peak of a product's dtype.
        """
        self._known: KnownTimes = {} if known is None else known
        device = device.of_pass(rank.planned.request)
        self.rank, self.device, self.settings = rank, device, settings
        self.step = device.step_constants(settings)
        self.runs = [self.timed(run) for run in rank.kernels]
        # what the framework does to call operations, where its time is known
        if device.clock.efficiency.memory_bound(FRAMEWORK) is not None:
            self.runs += map(self.timed, operation_calls(rank.kernels, settings.phase))
        self._of_stages: dict[Stage, StageTimes] = {}
        self._distinct: dict[tuple[int, int], tuple[Stage, ...]] = {}
        self._places: dict[object, tuple[str, StageTimes]] = {}
        for timed_run in self.runs:
            path, times = self._place(timed_run.run)
            self._places[rank.placement.place(path)] = path, times.with_run(timed_run)
        if self.host is not None:
            for run in rank.launched:
                path, times = self._place(run)
                self._places[rank.placement.place(path)] = path, times.with_launches(run, self.host)

    @property
    def host(self) -> Host | None:
        """The host whose launches are timed; None without timed kernels, or with timed operations."""
        if not self.device.has_constants(self.settings.dtype):
            return None
        return self.device.host if self.device.clock.efficiency.memory_bound(FRAMEWORK) is None else None

    def _place(self, run: KernelRun) -> tuple[str, StageTimes]:
        """The layers of a kernel, by the path of their first one, and their sum so far."""
        # kernels of the same layers have the same share of every stage: added up once for all stages
        return self._places.get(self.rank.placement.place(run.path), (run.path, StageTimes()))

    def of_stage(self, stage: Stage) -> StageTimes:
        """The seconds of a stage's micro batch."""
        if stage not in self._of_stages:
            self._of_stages[stage] = self._sum(stage)
        return self._of_stages[stage]

    def distinct(self, plan: Plan) -> tuple[Stage, ...]:
        """Distinct stages of a plan: of 8 with equal layers three, the first, one in the middle, the last."""
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

    def runs_of(self, stage: Stage) -> Iterator[TimedRun]:
        """The kernels that a stage runs, by the rows of counting."""
        for run, time in self.runs:
            part = self.rank.part(run, stage)
            if part is not None:
                yield TimedRun(part, time)

    def update(self, plan: Plan, stage: Stage) -> TimedRun:
        """The update of a stage's weights."""
        return self.timed(update_kernel(self.rank.planned, self.settings, plan, stage))

    def timed(self, run: KernelRun) -> TimedRun:
        """The kernel with its time: in a step by the constants of steps, if the device has any."""
        # layers and candidates of a search launch the same few kernels
        key = run.kernel, run.op_class
        if key not in self._known:
            self._known[key] = self._time(run)
        return TimedRun(run, self._known[key])

    def _time(self, run: KernelRun) -> KernelTime:
        time = self.device.clock.time(run.kernel, run.op_class)
        floor = time.seconds.floor
        if not self.device.has_constants(self.settings.dtype):
            # products at their floor beside the rest as expected would be no time of either kind
            return time._replace(seconds=Seconds.at_limit(floor))
        if self.step is None:
            return time
        from archcli.wings.serving.predict.rank.training import work_of  # of training alone

        expected, origin = fsum(work_of(time).parts(self.step).values()), self.step.origin
        return time._replace(seconds=Seconds.within(floor, expected, origin.low, origin.high))


class StageStep(NamedTuple):
    """Seconds of a rank of a stage, in total, computing and waiting, and its communication.

    `recomputed` is the part of the computing that the backward repeats, `launching` what the rank waits for
    its host.
    """

    total: Seconds
    computing: Seconds
    waiting: Seconds
    recomputed: Seconds
    communication: tuple[Exposed, ...]
    launching: Seconds = Seconds()

    @property
    def exposed_s(self) -> float:
        """Expected seconds of communication in which nothing is computed."""
        return fsum(exposed.least_s for exposed in self.communication)

    def plus(self, further: StageStep) -> StageStep:
        """Both, one after the other."""
        sent = {self._kind(part): part for part in self.communication}
        for part in further.communication:
            kind = self._kind(part)
            sent[kind] = sent[kind].plus(part) if kind in sent else part
        return StageStep(
            self.total.plus(further.total),
            self.computing.plus(further.computing),
            self.waiting.plus(further.waiting),
            self.recomputed.plus(further.recomputed),
            tuple(sent.values()),
            self.launching.plus(further.launching),
        )

    def scaled(self, times: float) -> StageStep:
        """The pass `times` one after the other."""
        return StageStep(
            self.total.scaled(times),
            self.computing.scaled(times),
            self.waiting.scaled(times),
            self.recomputed.scaled(times),
            tuple(part.scaled(times) for part in self.communication),
            self.launching.scaled(times),
        )

    @staticmethod
    def _kind(part: Exposed) -> tuple[object, ...]:
        """A key for collectives of one kind: contents, ranks and link, without the amount."""
        collective = part.timed.collective
        return collective.name, collective.purpose, collective.group, part.timed.link


def stage_step(times: RankTimes, plan: Plan, stage: Stage, grad_accum: int) -> StageStep:
    """The pass of a rank of a stage, or its step of `grad_accum` times the plan's micro batches.

    `times` may come from a step with another `grad_accum`: plans of a search share them.
    A stage waits (p - 1) / v micro batches as long as its own, arXiv:2104.04473 section 2.2.
    Raises ArchError for a link whose rate is not known.
    """
    micro_batch, training = times.of_stage(stage), times.settings.phase == "train"
    number = plan.micro_batches * grad_accum if training else 1
    computing, waiting = micro_batch.kernels.scaled(number), Seconds()
    if training:
        computing = computing.plus(times.update(plan, stage).time.seconds)
        # the pipeline fills and drains once for each accumulation
        waiting = micro_batch.all.scaled(plan.waited * grad_accum)
    recomputed = micro_batch.recomputed.scaled(number)
    collectives = tuple(times.rank.planned.collectives(plan, stage, grad_accum))
    sent = sending(collectives, times, micro_batch, number, computing) if collectives else Sending()
    busy = computing.plus(sent.seconds).overlapped(Seconds.at_limit(computing.floor + sent.seconds.floor))
    # the host goes on to launch while a rank computes and sends
    hosted = busy.overlapped(micro_batch.launching.scaled(number))
    total, communication = hosted.plus(waiting), sent.communication
    return StageStep(total, computing, waiting, recomputed, communication, hosted.beyond(busy))


OF_REPLICAS = ("weights", "gradients")
"""Purposes of collectives with constants fitted on training steps."""


class Sending(NamedTuple):
    """Seconds in which a rank sends and computes nothing, and the collectives with their times."""

    seconds: Seconds = Seconds()
    communication: tuple[Exposed, ...] = ()


def sending(
    collectives: Sequence[Collective], times: RankTimes, micro_batch: StageTimes, number: int, busy: Seconds
) -> Sending:
    """The exposed time of a rank's collectives, beside the compute of so many micro batches."""
    device = times.device
    floor = exposed(timed(collectives, device.fabric), _covers(micro_batch, number, "floor"))
    least = fsum(sent.least_s for sent in floor)
    if not device.has_constants(times.settings.dtype):
        return Sending(Seconds(least, least, least, fsum(sent.most_s for sent in floor)), tuple(floor))
    exposures = list(_expected(collectives, times, _covers(micro_batch, number, "expected")))
    low, high = (fsum(getattr(seconds, end) for _, seconds in exposures) for end in ("low", "high"))
    communication = tuple(sent for sent, _ in exposures)
    if busy.expected + fsum(sent.least_s for sent in communication) < busy.floor + least:
        # constants fitted to steps of more computing hide more than there is to hide it behind
        paper = exposed(timed(collectives, device.fabric), _covers(micro_batch, number, "expected"))
        at_limit = {sent.timed.collective: sent.least_s for sent in paper}
        communication = tuple(sent.not_below(at_limit[sent.timed.collective]) for sent in communication)
    expected = fsum(sent.least_s for sent in communication)
    return Sending(Seconds(least, expected, low, max(high, expected)), communication)


def _covers(
    micro_batch: StageTimes, number: int, kind: Literal["floor", "expected"]
) -> Mapping[Cover, float]:
    """Seconds of the compute that may run while something is sent."""
    forward, backward, attention = (number * getattr(seconds, kind) for seconds in micro_batch[:3])
    return {"forward": forward, "backward": backward, "compute": forward + backward, "attention": attention}


PASSES_OF_RING = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def _of_engine(collective: Collective, times: RankTimes) -> tuple[Exposed, Seconds] | None:
    """An engine's all-reduce within a node, which nothing hides; None for another collective.

    A gather or a scatter takes at most as long as an all-reduce of the whole.
    """
    engine, ranks, often = times.device.clock.engine, collective.group.ranks, float(collective.times)
    if engine is None or collective.name not in PASSES_OF_RING:
        return None
    (on_paper,) = timed([collective], times.device.fabric)
    # a rank sends (n - 1) / n of its message in each pass around a ring
    message = float(collective.bytes) / often * ranks / (PASSES_OF_RING[collective.name] * (ranks - 1))
    measured = engine.exchange(ranks, message) if on_paper.link == "link" else None
    if measured is None:
        return None
    seconds = often * max(measured.seconds, on_paper.time_s / often)
    low = max(on_paper.time_s, measured.low * seconds)
    sent = Exposed(on_paper._replace(time_s=seconds), seconds, seconds)
    return sent, Seconds(0.0, seconds, low, measured.high * seconds)


def _expected(
    collectives: Iterable[Collective], times: RankTimes, covers: Mapping[Cover, float]
) -> Iterator[tuple[Exposed, Seconds]]:
    """Collectives with their exposed seconds, by the constants of steps or of rings.

    The collectives of replicas in a step have a constant of their own, fitted with what compute hides. All
    others take what a ring reaches, less the compute that may cover it.
    """
    step, fabric, by_ring = times.step, times.device.fabric, []
    for collective in collectives:
        measured = _of_engine(collective, times)
        if measured is not None:
            yield measured
            continue
        if step is None or collective.purpose not in OF_REPLICAS:
            ring = times.device.clock.efficiency.ring(collective.group.ranks)
            pace = LinkPace(ring.latency, ring.link) if ring else LinkPace()
            share = ring.range(float(collective.bytes / collective.times)) if ring else (1.0, 1.0)
            by_ring.append((timed([collective], fabric, pace)[0], share))
            continue
        (on_paper,) = timed([collective], fabric)
        seconds, origin = on_paper.time_s / step.communication, step.origin
        low, high = origin.low * seconds, origin.high * seconds
        # a constant below 1 says that links are slower than on paper: what is exposed is under way
        taken = max(seconds, on_paper.time_s)
        yield Exposed(on_paper._replace(time_s=taken), seconds, taken), Seconds(0.0, seconds, low, high)
    uncovered = exposed([collective for collective, _ in by_ring], covers)
    for sent, (_, (low, high)) in zip(uncovered, by_ring, strict=True):
        yield sent, Seconds(0.0, sent.least_s, low * sent.least_s, high * sent.most_s)
