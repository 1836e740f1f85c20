"""What a report says of a GPU: how long it was busy, why it was idle, whether the trace has every kernel, and at what clock it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from archcli.measure.profile.schema.base import Device
from archcli.measure.report import Unit

if TYPE_CHECKING:
    from archcli.recording.recording import Recording

MOST_FALL = 0.05
"""Of the SM clock, from before the timed passes to after them: beyond, first and last passes ran on cards of different speed."""
STATES: Mapping[str, tuple[str, str]] = {
    "sm_clock_mhz": ("SM clock", "MHz"),
    "memory_clock_mhz": ("memory clock", "MHz"),
    "power_w": ("power", "W"),
    "temperature_c": ("temperature", "degrees C"),
}


def is_gpu(recording: Recording) -> bool:
    """Whether it was measured on one."""
    return str(recording.machine["device"]).startswith("cuda")


def device_of(recording: Recording, wall_s: float) -> Device | None:
    """The figures by the names JSON gives them: medians over the traced passes, of which busy and idle add up to `wall_s`; None on a CPU.

    `busy_share` is of that traced pass, `busy_share_of_plain` of the plain wall time, `plain_*_s` are the plain passes by either clock.
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


def machine_of(recording: Recording) -> dict[str, Any]:
    """What the figures depend on, with readings of the card before and after the timed passes where there are any."""
    states = _states(recording)
    return {**recording.machine, **({"states": list(states)} if states else {})}


def _states(recording: Recording) -> tuple[dict[str, Any], ...]:
    return () if recording.gpu is None else recording.gpu.states


def device_lines(recording: Recording, wall_s: float) -> Iterator[tuple[str, Any, Unit]]:
    """The same for people."""
    found = device_of(recording, wall_s)
    if found is not None:
        idle, traced = found["idle_s"], found["wall_s"] or 1.0
        yield "device busy / plain wall", found["busy_share_of_plain"], "share"
        yield "device busy, of a traced pass", found["busy_share"], "share"
        yield "device idle, waiting for launches", idle["launch"] / traced, "share"
        yield "device idle, the CPU waiting for it", idle["sync"] / traced, "share"
        yield "device only copying from or to elsewhere", idle["copy"] / traced, "share"
        yield "device before its first and after its last kernel", idle["ends"] / traced, "share"
        yield "kernels, copies and fills; launches", f"{found['kernels']}; {found['launches']}", "text"
    states = _states(recording)
    if len(states) > 1:
        before, after = states[0], states[-1]
        for key, (name, unit) in STATES.items():
            if key in before and key in after:
                yield f"{name}, before and after", f"{before[key]:.0f}, {after[key]:.0f} {unit}", "text"


def device_doubts(recording: Recording) -> Iterator[str]:
    """What to warn of."""
    if recording.lost:
        yield (
            f"NOT RELIABLE: kernels and launches differ: {', '.join(recording.lost[:5])}. The tracer loses kernels at the start of a pass "
            "after much idling (pytorch#192021); repeat it."
        )
    states = _states(recording)
    for reason in dict.fromkeys(reason for state in states for reason in state.get("slowed_by", ())):
        yield f"The card was slowed down: {reason}."
    clocks = [state["sm_clock_mhz"] for state in states if "sm_clock_mhz" in state]
    if len(clocks) > 1 and clocks[-1] < (1 - MOST_FALL) * clocks[0]:
        yield f"The SM clock fell from {clocks[0]} to {clocks[-1]} MHz while passes were timed: let the card cool, or lock its clock."
    gpu = recording.gpu
    if gpu is not None and gpu.hidden and gpu.on_device is not None and gpu.on_device.waits:
        waits = gpu.on_device.waits
        yield f"Calls that wait for the device before the pass's last launch: {waits}. Launches behind one cannot be hidden."


def device_notes(recording: Recording) -> Iterator[str]:
    """What must be known to read the figures of a GPU."""
    if not is_gpu(recording):
        return
    yield "Not measured on a GPU yet: this way of timing kernels was tried on recorded events only."
    yield (
        "An operation's time is that of the kernels it launched, each in full where several run at once; the framework is what is left of "
        "the pass, the device idle above all."
    )
    if recording.gpu is not None and recording.gpu.hidden:
        yield "Launches are hidden: a kernel that waits is ahead of each pass, and the plain wall is the device's time from there."
    if not _states(recording):
        yield "Clock, power and temperature of the card were not read: pip install nvidia-ml-py."
