"""RankTimes: seconds of one rank on a device: its kernels, summed by stage, and its communication."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import FRAMEWORK, Efficiency, Origin, StepConstants
from archcli.wings.serving.predict.rank.host import Host
from archcli.wings.serving.predict.rank.kernels import RankKernels, update_kernel
from archcli.wings.serving.predict.times import ATTENTION, NO_SECONDS, KernelClock, KernelTime, Seconds

if TYPE_CHECKING:
    from archcli.wings.serving.predict.engine_kernels.whole_runs import WholeRuns

KnownTimes = dict[tuple[KernelCost, str], KernelTime]
"""Times of kernels by kernel and class."""
FORWARD, RECOMPUTED = "forward", "recomputed"
LAST_DEVICES = 8
"""Of so many devices the times of kernels are kept."""


class TimingDevice(NamedTuple):
    """A device to time on: the clock of its kernels, its links, and the host that launches them.

    Without a `host` launches take no time of it. `whole_runs` are constants of passes, `ram` the RAM beside.
    `unlike` are the devices of all stages where they are unlike.
    `chunk`: tokens of a prompt that run at a time, None for all.
    """

    clock: KernelClock
    fabric: Fabric
    host: Host | None = None
    whole_runs: WholeRuns | None = None
    ram: TimingDevice | None = None
    unlike: tuple[TimingDevice, ...] = ()
    chunk: int | None = None

    def of_pass(self, request: Request) -> TimingDevice:
        """The device with the constants of a pass."""
        if self.whole_runs is None:
            return self
        return self._replace(clock=self.clock._replace(efficiency=self.whole_runs.of_pass(request)))

    def at_limit(self, *, drops_runs: bool) -> TimingDevice:
        """The device without constants, whose links take no time where their rates are not known.

        With `drops_runs` False those of whole runs stay: of layers that are split little is sent.
        """
        fabric = self.fabric.assumed()
        if not drops_runs and self.whole_runs is not None:
            return self._replace(fabric=fabric)
        clock = self.clock._replace(efficiency=Efficiency({}), engine=None)
        unlike = tuple(card.at_limit(drops_runs=drops_runs) for card in self.unlike)
        return self._replace(clock=clock, fabric=fabric, whole_runs=None, unlike=unlike)

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


def times_on(
    known: TracedModel, device: TimingDevice, settings: MemorySettings, request: Request
) -> KnownTimes:
    """The times of kernels in such passes on a device, from earlier questions about it."""
    facts = device.clock.rates, device.clock.efficiency.groups, device.clock.engine, device.whole_runs
    key = (*map(id, facts), settings.dtype, request.phase, request.batch_size, request.seq_len)
    devices: dict[Hashable, tuple[object, KnownTimes]] = known.passed("times of kernels", dict)
    # with the facts, so that their ids are of nothing else; of few devices: one is asked about after another
    nothing: tuple[object, KnownTimes] = facts, {}
    _, times = devices[key] = devices.pop(key, nothing)
    if len(devices) > LAST_DEVICES:
        del devices[next(iter(devices))]
    return times


class StageTimes(NamedTuple):
    """Seconds of a stage's micro batch: forward and other kernels; of both, attention and recomputed ones.

    `launching` is what the host takes meanwhile.
    """

    forward: Seconds = NO_SECONDS
    other: Seconds = NO_SECONDS
    attention: Seconds = NO_SECONDS
    recomputed: Seconds = NO_SECONDS
    launching: Seconds = NO_SECONDS

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
        pairs = zip(self, share, strict=True)
        return StageTimes(*(a if b is NO_SECONDS else a.plus(b.scaled(times)) for a, b in pairs))

    def with_run(self, timed_run: TimedRun) -> StageTimes:
        """The sum with a kernel's runs."""
        run, time = timed_run
        seconds = time.seconds.scaled(run.times)
        forward, others, attention, recomputed, launching = self
        is_forward = run.stage == FORWARD
        return StageTimes(
            forward.plus(seconds) if is_forward else forward,
            others if is_forward else others.plus(seconds),
            attention.plus(seconds) if time.kind == ATTENTION else attention,
            recomputed.plus(seconds) if run.stage == RECOMPUTED else recomputed,
            launching,
        )

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
        self._unlike, self._on = device.unlike, dict[int, RankTimes]()
        device = device.of_pass(rank.planned.request)
        self.rank, self.device, self.settings = rank, device, settings
        self.step, self.has_constants = device.step_constants(settings), device.has_constants(settings.dtype)
        # what the framework does to call operations, where its time is known
        self.called = device.clock.efficiency.memory_bound(FRAMEWORK) is not None
        self._of_stages: dict[Stage, StageTimes] = {}
        self._distinct: dict[tuple[int, int], tuple[Stage, ...]] = {}
        # kernels of the same layers have the same share of every stage: added up once for all stages
        self._places: dict[object, tuple[str, StageTimes]] = {}
        for place, runs in rank.placed(settings.phase, called=self.called).items():
            times = StageTimes()
            for run in runs:
                times = times.with_run(self.timed(run))
            self._places[place] = runs[0].path, times
        if self.host is not None:
            for run in rank.launched:
                path, times = self._place(run)
                self._places[rank.placement.place(path)] = path, times.with_launches(run, self.host)

    def at(self, stage: Stage) -> RankTimes:
        """The times on the device of a stage, the same for all stages of equal devices."""
        if not self._unlike:
            return self
        number = stage.number
        if number not in self._on:
            self._on[number] = RankTimes(self.rank, self._unlike[number], self.settings)
        return self._on[number]

    @property
    def host(self) -> Host | None:
        """The host whose launches are timed; None without timed kernels, or with timed operations."""
        return self.device.host if self.has_constants and not self.called else None

    def _place(self, run: KernelRun) -> tuple[str, StageTimes]:
        """The layers of a kernel, by the path of their first one, and their sum so far."""
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
        for share, (_, times) in zip(self.shares(stage), self._places.values(), strict=True):
            total = total.plus(times, share) if share else total
        return total

    def shares(self, stage: Stage) -> tuple[float, ...]:
        """The parts of all layers that a stage runs: stages with equal parts take equal times."""
        return tuple(self.rank.share(path, stage) for path, _ in self._places.values())

    def runs_of(self, stage: Stage, batches: float) -> Iterator[TimedRun]:
        """The kernels that a stage runs in so many batches, by the rows of counting."""
        return map(self.timed, self.rank.alike(stage, self.settings.phase, batches, called=self.called))

    def update(self, plan: Plan, stage: Stage) -> TimedRun:
        """The update of a stage's weights; of an offload the host's, at the rate of RAM."""
        run, offload = update_kernel(self.rank.planned, self.settings, plan, stage), self.settings.offload
        if offload is None or "optimizer" not in offload.parts:
            return self.timed(run)
        # all devices of a node step in the same RAM
        moved = min(plan.devices, self.device.fabric.devices_per_node) * run.kernel.bytes
        return TimedRun(
            run, KernelTime(Seconds.at_limit(moved / offload.host.bandwidth), "ram", run.op_class)
        )

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
        if not self.has_constants:
            # products at their floor beside the rest as expected would be no time of either kind
            return time._replace(seconds=Seconds.at_limit(floor))
        if self.step is None:
            return time
        from archcli.wings.serving.predict.rank.training import work_of  # of training alone

        expected, origin = fsum(work_of(time).parts(self.step).values()), self.step.origin
        low = self.step.attention_low if time.kind == ATTENTION else origin.low
        return time._replace(seconds=Seconds.within(floor, expected, low, origin.high))
