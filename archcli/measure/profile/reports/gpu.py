"""Figures and notes of a profile on a GPU: busy and idle time, launches, clock, power and temperature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.errors import install
from archcli.measure.profile.schema.base import Device
from archcli.measure.report import Unit
from archcli.recording.recording import GpuPasses, Recording

READINGS: Mapping[str, tuple[str, str]] = {
    "sm_clock_mhz": ("SM clock", "MHz"),
    "memory_clock_mhz": ("memory clock", "MHz"),
    "power_w": ("power", "W"),
    "temperature_c": ("temperature", "degrees C"),
}
"""Names and units of what the card reports, by JSON key."""
Fact = tuple[str, Any, Unit]


def is_gpu(recording: Recording) -> bool:
    """Whether a pass ran on a GPU."""
    return str(recording.machine["device"]).startswith("cuda")


def device_figures(recording: Recording, wall_s: float) -> Device | None:
    """Device activity: medians over traced passes; busy and idle times add up to `wall_s`.

    `busy_share` is of the traced pass, `busy_share_of_plain` of the plain wall time. `plain_*_s` are the
    plain passes by either clock. None on a CPU.
    """
    gpu, device = recording.gpu, recording.on_device
    if gpu is None or device is None:
        return None
    return {
        "busy_s": device.busy_ns / 1e9,
        "idle_s": {
            "launch": device.launch_ns / 1e9,
            "sync": device.sync_ns / 1e9,
            "copy": device.copy_ns / 1e9,
            "ends": device.ends_ns / 1e9,
        },
        "wall_s": device.wall_ns / 1e9,
        "busy_share": device.busy_ns / device.wall_ns if device.wall_ns else 0.0,
        "busy_share_of_plain": device.busy_ns / 1e9 / wall_s,
        "kernels": device.activities,
        "launches": device.launches,
        "waits": device.waits,
        "plain_host_s": list(gpu.host_s),
        "plain_device_s": list(gpu.device_s),
    }


def machine_figures(recording: Recording) -> dict[str, Any]:
    """Machine settings, and readings of the GPU before and after the timed passes."""
    states = () if recording.gpu is None else recording.gpu.states
    return {**recording.machine, **({"states": list(states)} if states else {})}


def device_facts(recording: Recording, wall_s: float) -> Iterator[Fact]:
    """Lines of the quality table on the device."""
    figures = device_figures(recording, wall_s)
    if figures is not None:
        idle, traced = figures["idle_s"], figures["wall_s"] or 1.0
        yield "device busy / plain wall", figures["busy_share_of_plain"], "share"
        yield "device busy, of a traced pass", figures["busy_share"], "share"
        yield "device idle, waiting for launches", idle["launch"] / traced, "share"
        yield "device idle, the CPU waiting for it", idle["sync"] / traced, "share"
        yield "device only copying from or to elsewhere", idle["copy"] / traced, "share"
        yield "device before its first and after its last kernel", idle["ends"] / traced, "share"
        yield "kernels, copies and fills; launches", f"{figures['kernels']}; {figures['launches']}", "text"
    if recording.gpu is not None:
        yield from _reading_facts(recording.gpu)


def _reading_facts(gpu: GpuPasses) -> Iterator[Fact]:
    if len(gpu.states) > 1:
        before, after = gpu.states[0], gpu.states[-1]
        for key, (name, unit) in READINGS.items():
            if key in before and key in after:
                yield f"{name}, before and after", f"{before[key]:.0f}, {after[key]:.0f} {unit}", "text"


def device_notes(recording: Recording) -> Iterator[str]:
    """How to read the figures of a GPU."""
    if not is_gpu(recording):
        return
    yield "Not measured on a GPU yet: this way of timing kernels was tried on recorded events only."
    yield (
        "An operation's time is that of the kernels it launched, each in full where several run at once; "
        "the framework is what is left of the pass, the device idle above all."
    )
    if recording.gpu is not None and recording.gpu.hidden:
        yield (
            "Launches are hidden: a kernel that waits is ahead of each pass, "
            "and the plain wall is the device's time from there."
        )
    if recording.gpu is None or not recording.gpu.states:
        hint = install("nvidia-ml-py")
        yield f"Clock, power and temperature of the card were not read; to read them {hint}"
