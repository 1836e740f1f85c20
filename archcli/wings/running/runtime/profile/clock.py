"""Clocks: the time of one pass by the CPU or the GPU, and disturbances by the system.

A GPU works through a queue: a pass lasts until its last kernel has ended. If launching is slower than
computing, the GPU waits for the CPU. `HidingClock` puts a waiting kernel in front of each pass, so that all
launches are queued before the pass starts: Ivanov et al. 2021, arXiv:2007.00072, section 3.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch.autograd import profiler

from archcli.wings.running.recording.disturbance import (
    MOST_SWITCHES_PER_S,
    MOST_WAITED,
    ProcessorTimes,
    processor_times,
)
from archcli.wings.running.recording.events import TIMED

Step = Callable[[], Any]
WARM_UPS, DEVICE_WARM_UPS = 2, 5
"""Untimed passes: a GPU first loads kernels and raises its clock. Five as in the paper."""
LEAST_WAIT_S, MARGIN = 1e-3, 1.5
"""The least wait, as in the paper; wait / launch time of the last warm-up, as labels slow launches."""
PROBE_CYCLES = 10_000_000
"""Cycles of a wait of some milliseconds, which measures cycles per second."""


class Run(NamedTuple):
    """One timed pass, and disturbances by the system during it.

    seconds: of the device if launches are hidden, else of the host.
    faults, switches, system_s: page faults, involuntary context switches, system time.
    host_s, device_s: by either clock; device_s is None on a CPU.
    times: of the processors during the pass.
    """

    seconds: float
    faults: int
    switches: int
    system_s: float = 0.0
    host_s: float | None = None
    device_s: float | None = None
    times: ProcessorTimes = ProcessorTimes()

    @property
    def lasted_s(self) -> float:
        """Seconds by the host's clock."""
        return self.seconds if self.host_s is None else self.host_s

    @property
    def disturbed(self) -> bool:
        """Whether threads waited for a processor, or were switched, more than on a quiet machine."""
        # waiting for a processor is the disturbance; without /proc, context switches are a hint of it
        if self.times.waited_share is not None:
            return self.times.waited_share > MOST_WAITED
        return self.switches > MOST_SWITCHES_PER_S * self.lasted_s


class Clock(Protocol):
    """How passes are timed on one kind of device."""

    on_gpu: bool
    warm_ups: int

    def warm_up(self, step: Step) -> None:
        """Run one untimed pass."""

    def ready(self) -> None:
        """Wait until the device has finished all earlier work."""

    def run(self, step: Step) -> tuple[Any, float | None]:
        """One whole pass: (its output, seconds by the device's clock)."""

    def counted(self, host_s: float, device_s: float | None) -> float:
        """Of the host's and the device's time, the one that this clock reports."""


class HostClock:
    """The host's clock, for CPUs: a pass ends when it returns."""

    on_gpu, warm_ups = False, WARM_UPS

    def warm_up(self, step: Step) -> None:
        """Run one untimed pass."""
        step()

    def ready(self) -> None:
        """Return at once: a CPU has no queue."""

    def run(self, step: Step) -> tuple[Any, float | None]:
        """One pass."""
        return step(), None

    def counted(self, host_s: float, device_s: float | None) -> float:
        """The host's time, the only one."""
        return host_s


class DeviceClock:
    """A CUDA device's clock: CUDA events before a pass's first launch and after its last kernel."""

    on_gpu, warm_ups = True, DEVICE_WARM_UPS

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def warm_up(self, step: Step) -> None:
        """Run one untimed pass and wait for the device."""
        step()
        self.ready()

    def ready(self) -> None:
        """Wait until the device has finished all earlier work."""
        torch.cuda.synchronize(self.device)

    def run(self, step: Step) -> tuple[Any, float | None]:
        """One pass, until the device is done; a range of the trace, where one is made."""
        # events and the waiting kernel go to the current device's stream
        with torch.cuda.device(self.device), torch._C._profiler._RecordFunctionFast(TIMED):
            begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # before the first event, so that the wait is not in the time
            self.ahead()
            begun.record()
            result = step()
            done.record()
            self.ready()
            # elapsed_time is in milliseconds
            return result, begun.elapsed_time(done) / 1e3

    def ahead(self) -> None:
        """Queue a kernel ahead of a pass; here none."""

    def counted(self, host_s: float, device_s: float | None) -> float:
        """The host's time, launching included."""
        return host_s


class HidingClock(DeviceClock):
    """A CUDA device's clock with launches hidden behind a waiting kernel ahead of each pass."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.cycles = 0

    def warm_up(self, step: Step) -> None:
        """Run one untimed pass, whose launching time sets the waiting kernel's length."""
        self.ready()
        start = time.perf_counter()
        step()
        # step() returns once all kernels are launched: do not wait for the device here
        launching_s = time.perf_counter() - start
        self.ready()
        # measure cycles per second each time, as a GPU raises its clock while it warms up
        self.cycles = round(max(LEAST_WAIT_S, MARGIN * launching_s) * self._cycles_per_s())

    def ahead(self) -> None:
        """Queue the waiting kernel."""
        torch.cuda._sleep(self.cycles)

    def counted(self, host_s: float, device_s: float | None) -> float:
        """The device's time, as the host's includes the wait."""
        return host_s if device_s is None else device_s

    def _cycles_per_s(self) -> float:
        """Measure the waiting kernel's cycles per second on the busy device."""
        with torch.cuda.device(self.device):
            begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            torch.cuda._sleep(PROBE_CYCLES)
            done.record()
            self.ready()
            return PROBE_CYCLES / (begun.elapsed_time(done) / 1e3)


def clock_of(device: str, *, hide_launch: bool = False) -> Clock:
    """The clock for a device; with `hide_launch` one that hides launches behind a waiting kernel."""
    if not device.startswith("cuda"):
        return HostClock()
    return HidingClock(device) if hide_launch else DeviceClock(device)


def run_pass(step: Step, clock: Clock) -> Run:
    """Run and time one pass; its outputs are freed outside of the timed interval."""
    clock.ready()
    # the finest clock is read innermost: reading /proc takes time that must not count
    times = processor_times()
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    result, device_s = clock.run(step)
    host_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    times = processor_times().since(times)
    del result
    return Run(
        clock.counted(host_s, device_s),
        # faults that read no disk: fresh pages
        after.ru_minflt - before.ru_minflt,
        # involuntary switches: another process took the processor
        after.ru_nivcsw - before.ru_nivcsw,
        after.ru_stime - before.ru_stime,
        host_s,
        device_s,
        times,
    )


def tracing(clock: Clock) -> Any:
    """Trace the block with Kineto, without shapes and stacks to keep it cheap; on a GPU with CUPTI."""
    return profiler.profile(use_kineto=True, use_device="cuda" if clock.on_gpu else None)
