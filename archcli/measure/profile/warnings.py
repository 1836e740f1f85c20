"""Warnings: notes of a report on what makes a recording unreliable, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.profile.fold import Breakdown
from archcli.measure.profile.quality import (
    LEAST_ATTRIBUTED,
    MOST_OVERHEAD,
    MOST_SPREAD,
    MOST_UNATTRIBUTED,
    disturbances,
    is_busy,
    is_disturbed,
    overhead_ratio,
)
from archcli.recording.classes import UNATTRIBUTED
from archcli.recording.recording import Recording

MOST_NAMED = 5
"""Differing operations or launches that a warning names; JSON has all."""
MOST_CLOCK_FALL = 0.05
"""The largest fall of the SM clock over the timed passes, as a share, that goes without a warning."""


def warnings_of(recording: Recording, breakdown: Breakdown) -> Iterator[str]:
    """The warnings of the recording of one model."""
    if recording.partial:
        yield f"PARTIAL: interrupted after {len(recording.traced_s)} pairs of passes."
    if recording.differing:
        expected = "census" if recording.compiled is None else "compiled code"
        yield (
            f"NOT RELIABLE: trace and {expected} differ in {len(recording.differing)} operations: "
            f"{', '.join(recording.differing[:MOST_NAMED])}."
        )
    if is_disturbed(recording):
        yield disturbance_warning(recording)
    yield from _unattributed(recording, breakdown.share_of(UNATTRIBUTED))
    overhead = overhead_ratio(recording)
    if overhead > MOST_OVERHEAD:
        yield f"Tracing slowed the pass by {overhead - 1:.0%}: small operations look too expensive."
    if breakdown.attributed_share < LEAST_ATTRIBUTED:
        yield (
            f"Operations explain {breakdown.attributed_share:.0%} of the plain wall time; "
            "short passes leave more to the framework."
        )
    yield from device_warnings(recording)


def _unattributed(recording: Recording, share: float) -> Iterator[str]:
    if abs(share) <= MOST_UNATTRIBUTED:
        return
    if recording.extrapolated:
        yield (
            "NOT RELIABLE HERE: the sum of operations and the slope of the wall time "
            f"part by {abs(share):.0%}."
        )
    else:
        yield (
            f"NOT RELIABLE: plain and traced passes differ by {share:.0%} of the plain wall time; repeat it."
        )


def disturbance_warning(recording: Recording) -> str:
    """The warning of passes that other processes disturbed, or whose times scatter: what was seen."""
    spread, seen = recording.disturbance.spread, "; ".join(disturbances(recording))
    # a quiet machine is no cure where the passes scatter by themselves
    cause, cure = ("a busy machine", " on a quiet one") if is_busy(recording) else ("uneven passes", "")
    uneven = f" The middle half of the plain passes spans {spread:.0%} of their median."
    return f"NOT RELIABLE: {cause}: {seen}.{uneven * (spread > MOST_SPREAD)} Repeat it{cure}."


def device_warnings(recording: Recording) -> Iterator[str]:
    """The warnings of a GPU: lost kernels, a card that slowed down, launches that could not be hidden."""
    gpu = recording.gpu
    if gpu is None:
        return
    if gpu.lost:
        yield (
            f"NOT RELIABLE: kernels and launches differ: {', '.join(gpu.lost[:MOST_NAMED])}. The tracer "
            "loses kernels at the start of a pass after much idling (pytorch#192021); repeat it."
        )
    slowed_by = (reason for state in gpu.states for reason in state.get("slowed_by", ()))
    for reason in dict.fromkeys(slowed_by):
        yield f"The card was slowed down: {reason}."
    clocks = [state["sm_clock_mhz"] for state in gpu.states if "sm_clock_mhz" in state]
    if len(clocks) > 1 and clocks[-1] < (1 - MOST_CLOCK_FALL) * clocks[0]:
        yield (
            f"The SM clock fell from {clocks[0]} to {clocks[-1]} MHz while passes were timed: "
            "let the card cool, or lock its clock."
        )
    if gpu.hidden and gpu.on_device is not None and gpu.on_device.waits:
        yield (
            f"Calls that wait for the device before the pass's last launch: {gpu.on_device.waits}. "
            "Launches behind one cannot be hidden."
        )
