"""The quality of a recording: overhead of tracing, unattributed time, and load of the machine."""

from __future__ import annotations

from statistics import median

from archcli.measure.profile.fold import Breakdown
from archcli.recording.classes import UNATTRIBUTED
from archcli.recording.recording import Recording

# Within these a profile is sound. Seen on a quiet machine at steps of 20 ms and more: overhead at most 1.03,
# attributed 0.95 to 1.01, unattributed 0 to 0.03; the rest is room for short steps. A busy neighbour causes
# 120 involuntary context switches a second.
MOST_OVERHEAD, LEAST_ATTRIBUTED, MOST_SWITCHES_PER_S, MOST_LOAD = 1.06, 0.90, 120.0, 1.0
MOST_UNATTRIBUTED = 0.10
"""The largest share of the plain wall time, positive or negative, at which a profile is reliable."""


def overhead_ratio(recording: Recording) -> float:
    """Time of the traced pass over that of the plain pass: the median over pairs."""
    pairs = zip(recording.plain_s, recording.traced_s, strict=True)
    return median(traced / plain for plain, traced in pairs)


def is_reliable(recording: Recording, breakdown: Breakdown) -> bool:
    """Whether trace and census agree, and at most a tenth of the plain time is unattributed."""
    is_complete = not recording.differing and not recording.lost
    return is_complete and abs(breakdown.share_of(UNATTRIBUTED)) <= MOST_UNATTRIBUTED


def is_busy(load: float, switches_per_s: float) -> bool:
    """Whether other processes disturbed the passes."""
    return load > MOST_LOAD or switches_per_s > MOST_SWITCHES_PER_S


def fastest_to_slowest(recording: Recording) -> str:
    """The range of the plain passes in milliseconds."""
    return f"{min(recording.plain_s) * 1e3:.1f} to {max(recording.plain_s) * 1e3:.1f} ms"
