"""A pass or a step with a part in RAM: its legs in sequence, and copies over the bus.

A leg is a run of kernels on the device, or on the CPU for weights in RAM. In a pass of many tokens the device
runs all kernels, and matrices are copied from RAM first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from archcli.graph import Row
from archcli.modules import Model
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.memory.offload import Offload
from archcli.wings.serving.memory.parts.in_ram import bus_bytes, copies
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import ONE_DEVICE, Plan
from archcli.wings.serving.memory.ranks import rank_peaks
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import shares
from archcli.wings.serving.memory.traced import TracedModel
from archcli.wings.serving.predict.rank.kernels import RankKernels
from archcli.wings.serving.predict.rank.rank_times import RankTimes
from archcli.wings.serving.predict.times import KernelTime, Seconds
from archcli.wings.serving.recorded.operations import JOIN

BUS_LOW, BUS_HIGH = 0.7, 1.5
"""Range of a copy's seconds over the bus, as multiples of the expected ones: a rule of thumb."""


class Leg(NamedTuple):
    """A stage of some kernels, their times where they run, and the plan of the communication after it."""

    times: RankTimes
    plan: Plan
    stage: Stage


class RamTimes(RankTimes):
    """Times of kernels that the CPU runs on weights in RAM; none is shorter than on the device.

    Small kernels are bound by launches on a device and by threads on a CPU: the constants are too rough to
    predict that the CPU is faster.
    """

    def __init__(self, rank: RankKernels, device: RankTimes, settings: MemorySettings) -> None:
        """Time every kernel in the RAM beside the device."""
        self._on_device = device
        ram = device.device.ram
        super().__init__(rank, device.device if ram is None else ram, settings)

    def _time(self, run: KernelRun) -> KernelTime:
        here, there = super()._time(run), self._on_device.timed(run).time
        seconds = here.seconds.overlapped(there.seconds)
        if here.bound_by in {"memory", "cache"}:
            here = here._replace(bound_by="ram")
        longer = here if here.seconds.expected >= there.seconds.expected else there
        return longer._replace(seconds=seconds)


def legs(times: RankTimes, plan: Plan, offload: Offload) -> Iterator[Leg]:
    """The legs of a pass: first the layers in RAM, then the stages of the plan."""
    on_device = copies(times.rank.planned.request)
    stages, n_layers = times.rank.planned.stages(plan), times.rank.planned.placement.n_layers
    for rank, routed in _kinds(times.rank, offload):
        # the kernels of other kinds are timed with them
        here = RankTimes(rank, times.device, times.settings)
        there = here if on_device else RamTimes(rank, here, times.settings)
        in_ram, begins = offload.in_ram(routed=routed), offload.layers > 0
        if in_ram:
            yield Leg(there, ONE_DEVICE, Stage(-1, (in_ram,), is_first=begins and not routed, is_last=False))
        for stage in stages:
            if not routed:
                yield Leg(here, plan, stage)
                continue
            groups = tuple(range(max(group.start, in_ram.stop), group.stop) for group in stage.groups)
            if any(groups) and in_ram.stop < n_layers:
                yield Leg(here, ONE_DEVICE, Stage(stage.number, groups, is_first=False, is_last=False))


def _kinds(rank: RankKernels, offload: Offload) -> Iterator[tuple[RankKernels, bool]]:
    """(kernels, whether of routed experts); all kernels at once unless only experts are offloaded."""
    if not offload.experts:
        yield rank, False
        return
    rows = {rank.placement.counted_path(row.path): row for row in rank.planned.rows}
    for routed in (False, True):
        of_kind = (run for run in rank.kernels if _is_routed(rank, rows, run) is routed)
        yield replace(rank, kernels=tuple(of_kind)), routed


def _is_routed(rank: RankKernels, rows: Mapping[str, Row], run: KernelRun) -> bool:
    paths = rank.placement.counted_path(run.path).split(JOIN)
    return any(path in rows and rows[path].experts is not None for path in paths)


class BusCopies(NamedTuple):
    """Copies of a pass over the bus: number, bytes and seconds."""

    times: int
    bytes: float
    seconds: Seconds


def bus_copies(model: Model, times: RankTimes, offload: Offload) -> BusCopies:
    """The copies of a pass; a prompt has one for each chunk.

    Compute may hide a copy, so that its floor is 0.
    """
    request, settings = times.rank.planned.request, times.settings
    tokens, chunk = int(request.batch_size * request.seq_len), settings.engine and settings.engine.chunk
    chunks = -(-tokens // chunk) if chunk and request.phase != "decode" else 1
    moved = bus_bytes(TracedModel(model), settings, request)
    moved *= chunks if copies(request) else 1
    seconds = moved / offload.host.bus
    return BusCopies(chunks, moved, Seconds.within(0.0, seconds, BUS_LOW, BUS_HIGH))


def step_copies(model: Model, times: RankTimes, plan: Plan, stage: Stage, computing: Seconds) -> BusCopies:
    """The copies of a rank's training step, with the seconds that its computing does not hide.

    Activations go to RAM and come back; weights come for the forward and for the backward, tables once;
    gradients go to RAM, and from the second micro batch on come back to be added to (DeepSpeed's ZeRO).
    """
    settings, planned = times.settings, times.rank.planned
    offload, batches = settings.offload or Offload(), plan.micro_batches_of(settings)
    peaks = rank_peaks(TracedModel(model), settings, plan)
    kept = next(peak.traced.ledger.kept for peak in peaks if peak.stage == stage.number)
    whole = shares(plan, planned.weights, stage)
    layers = shares(plan, [weight for weight in planned.weights if weight.layers], stage)
    weights, gradients = float(planned.width), float(planned.gradient_width)
    passed = {
        "activations": 2.0 * batches * float(kept),
        "parameters": batches * (whole.weights + layers.weights) * weights,
        "optimizer": (2 * batches - 1) * whole.states * gradients,
    }
    moved = sum(passed[part] for part in offload.parts)
    if settings.offloads("optimizer") is not settings.offloads("parameters"):
        moved += whole.states * weights  # the new ones, to where weights lie
    devices = min(plan.devices, times.device.fabric.devices_per_node)
    seconds = moved / min(offload.host.bus, offload.host.bandwidth / devices)
    # that computing hides them was not measured either
    return BusCopies(batches, moved, Seconds.at_limit(seconds).beyond(computing)._replace(unknown=seconds))
