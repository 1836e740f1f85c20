"""The quality of a recording: overhead of tracing, unattributed time, what disturbed it, and warnings.

A warning is a note of a report on what makes a recording unreliable, one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from archcli.wings.running.profile.fold import Breakdown
from archcli.wings.running.recording.disturbance import MOST_SWITCHES_PER_S, MOST_WAITED, Disturbance
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import UNATTRIBUTED

# Within these a profile is sound. Seen on a quiet machine at steps of 20 ms and more: overhead at most 1.03,
# attributed 0.95 to 1.01, unattributed 0 to 0.03; the rest is room for short steps. A busy neighbour causes
# 120 involuntary context switches a second.
MOST_OVERHEAD, LEAST_ATTRIBUTED, MOST_LOAD = 1.06, 0.90, 1.0
MOST_UNATTRIBUTED = 0.10
"""The largest share of the plain wall time, positive or negative, at which a profile is reliable."""
LEAST_TAKEN = 0.05
"""The least processors that other processes take if threads wait for them and not for each other."""
MOST_TAKEN, MOST_STOLEN = 0.25, 0.05
"""The largest shares of the processors that other processes and the host of a virtual machine may take.

What other processes take is asked only where the system does not say how long threads waited.
"""
MOST_SPREAD = 0.25
"""The largest interquartile range of the plain passes, of their median."""
MOST_NAMED = 5
"""Differing operations or launches that a warning names; JSON has all."""
MOST_CLOCK_FALL = 0.05
"""The largest fall of the SM clock over the timed passes, as a share, that goes without a warning."""


def overhead_ratio(recording: Recording) -> float:
    """Time of the traced pass over that of the plain pass: the median over pairs."""
    pairs = zip(recording.plain_s, recording.traced_s, strict=True)
    # within pairs, whose passes ran one after the other: the machine's own speed wanders
    return median(traced / plain for plain, traced in pairs)


def is_reliable(recording: Recording, breakdown: Breakdown) -> bool:
    """Whether trace and census agree, at most a tenth is unattributed, and no pass was disturbed."""
    is_complete = not recording.differing and not recording.lost
    # negative where traced passes took longer than the plain ones
    is_attributed = abs(breakdown.share_of(UNATTRIBUTED)) <= MOST_UNATTRIBUTED
    return is_complete and is_attributed and not is_disturbed(recording)


def is_disturbed(recording: Recording) -> bool:
    """Whether other processes disturbed the plain passes, or their times scatter.

    With hidden launches a GPU works through its queue whatever the processors do.
    """
    hidden = recording.gpu is not None and recording.gpu.hidden
    return recording.disturbance.spread > MOST_SPREAD or (not hidden and is_busy(recording))


def is_busy(recording: Recording) -> bool:
    """Whether other processes had processors that the passes wanted.

    The load when a run began says nothing of its passes: it is asked only where the system says nothing else.
    """
    seen = recording.disturbance
    if _is_stolen(seen):
        return True
    if seen.waited_share is not None:
        return seen.waited_share > MOST_WAITED and (seen.others is None or seen.others > LEAST_TAKEN)
    if seen.others is not None:
        return seen.others > MOST_TAKEN * seen.processors
    return recording.load > MOST_LOAD or recording.switches_per_s > MOST_SWITCHES_PER_S


def _is_stolen(seen: Disturbance) -> bool:
    """Whether the host of a virtual machine took more of the processors than a sound pass leaves it."""
    return seen.stolen is not None and seen.stolen > MOST_STOLEN * seen.processors


def disturbances(recording: Recording) -> Iterator[str]:
    """What was seen of other processes and of the scatter of the plain passes, a clause each."""
    seen = recording.disturbance
    if seen.others is not None:
        yield f"other processes took {seen.others:.1f} of {seen.processors} processors"
    if _is_stolen(seen):
        yield f"the host of this virtual machine took {seen.stolen:.1f}"
    if seen.waited_share is not None:
        yield f"threads waited for one {seen.waited_share:.0%} of their time"
    if seen.others is None and seen.waited_share is None:
        yield f"{recording.load:.1f} processes a processor when it began"
        yield f"{recording.switches_per_s:.0f} involuntary context switches a second"
    if not recording.extrapolated:
        yield f"plain passes took {fastest_to_slowest(recording)}"


def fastest_to_slowest(recording: Recording) -> str:
    """The range of the plain passes in milliseconds."""
    return f"{min(recording.plain_s) * 1e3:.1f} to {max(recording.plain_s) * 1e3:.1f} ms"


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
    """The warning of passes disturbed by other processes, or with scattered times."""
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
