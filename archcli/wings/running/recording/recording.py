"""The recording of a profile: times of plain and traced passes, and of the operations in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archcli.wings.running.recording.device import DeviceActivity
from archcli.wings.running.recording.disturbance import Disturbance
from archcli.wings.running.recording.kernels import CompiledModel
from archcli.wings.serving.recorded.operations import (
    ClassKey,
    CollectiveTime,
    ExecutedOp,
    OpInstance,
    OpTime,
)


@dataclass(frozen=True, slots=True)
class GpuPasses:
    """Device times and activity of passes on a GPU.

    on_device: activity in a traced pass; None for an extrapolation.
    lost: launches and kernels that a trace lacks.
    host_s, device_s: plain passes by either clock.
    hidden: launches were hidden, and `Recording.plain_s` is of the device, else of the host.
    states: sensors of the GPU before and after.
    """

    on_device: DeviceActivity | None = None
    lost: tuple[str, ...] = ()
    host_s: tuple[float, ...] = ()
    device_s: tuple[float, ...] = ()
    hidden: bool = False
    states: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """The measurements of one kind of pass: pairs of a plain and a traced run.

    timed: torch operations with their median times in traced passes.
    ran: the operations of the architecture that they belong to.
    plain_s, traced_s: wall times of the passes.
    framework_s: the median of a traced pass less its operations.
    executed, counted, differing: torch operations of a pass, those in the trace, and the names of those with
        other numbers of calls.
    rejected: disturbed pairs, which no figure includes.
    page_faults, switches_per_s, system_s: of plain passes; `system_s` is the median time in the kernel, over
        all threads, mostly for page faults.
    machine: what it ran on, by the keys of the report.
    load: runnable processes per processor at the start.
    partial: interrupted before all pairs.
    trace: one traced pass in Chrome's format.
    census: all operations that torch executed.
    reached: experts that got tokens, by the path of an operation within routed experts.
    gpu: passes on a GPU.
    compiled: the fused groups of a compiled model; its paths are theirs, and its operations are kernels.
    stacks: the small stacks that an extrapolation was made from.
    disturbance: of the plain passes by other processes.
    collectives, sent: of a rank of a plan, and the bytes it sends by the path of the operation.
    """

    timed: tuple[OpTime, ...]
    ran: tuple[OpInstance, ...]
    plain_s: tuple[float, ...]
    traced_s: tuple[float, ...]
    framework_s: float
    executed: int
    counted: int
    differing: tuple[str, ...]
    rejected: int
    page_faults: int
    switches_per_s: float
    machine: dict[str, Any]
    load: float = 0.0
    partial: bool = False
    trace: dict[str, Any] | None = None
    census: tuple[ExecutedOp, ...] = ()
    system_s: float = 0.0
    reached: Mapping[str, int] = field(default_factory=dict)
    gpu: GpuPasses | None = None
    compiled: CompiledModel | None = None
    stacks: tuple[str, ...] = ()
    disturbance: Disturbance = field(default_factory=Disturbance)
    collectives: tuple[CollectiveTime, ...] | None = None
    sent: Mapping[str, int] = field(default_factory=dict)

    @property
    def extrapolated(self) -> bool:
        """Whether small stacks were timed in place of the model."""
        return bool(self.stacks)

    @property
    def on_device(self) -> DeviceActivity | None:
        """The GPU's activity in a traced pass; None on a CPU or when extrapolated."""
        return None if self.gpu is None else self.gpu.on_device

    @property
    def lost(self) -> tuple[str, ...]:
        """Launches and activities that the GPU's trace lacks."""
        return () if self.gpu is None else self.gpu.lost


class Timing(NamedTuple):
    """A variant timed in rounds: the plain wall time of a round, and its seconds by operation and class."""

    recording: Recording
    walls: tuple[float, ...]
    places: tuple[Mapping[ClassKey, float], ...]
