"""What disturbed timed passes: time taken by other processes, waiting threads, a spread of the times.

Linux has all of it: /proc/stat the busy time of every processor in ticks of 10 ms, and schedstat of a thread
how long it was ready to run while something else ran. Elsewhere these are None.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from archcli.wings.serving.recorded.machine import PROC, processor_seconds, waited_seconds

# 20 ticks, so that one more or less is 5%
LEAST_S = 0.2
"""Seconds below which ticks do not say how much others ran."""
MOST_WAITED = 0.05
"""The largest share of waiting of an undisturbed pass."""
MOST_SWITCHES_PER_S = 120.0
"""Most involuntary context switches of an undisturbed pass; used where waiting is not measured."""


class ProcessorTimes(NamedTuple):
    """Seconds of the clock and of the processors that this process may use: a reading, or a difference.

    `own_s` this process ran, `busy_s` any process, `stolen_s` the host of a virtual machine; `waited_s` is
    how long threads of this process were ready to run and did not, summed over threads.
    """

    wall_s: float = 0.0
    own_s: float = 0.0
    busy_s: float | None = None
    stolen_s: float | None = None
    waited_s: float | None = None

    def since(self, before: ProcessorTimes) -> ProcessorTimes:
        """The times from an earlier reading to this one."""
        pairs = zip(self[2:], before[2:], strict=True)
        # the counters of a thread go with it: a later reading may be the smaller one
        unsure = (None if now is None or then is None else max(0.0, now - then) for now, then in pairs)
        return ProcessorTimes(self.wall_s - before.wall_s, self.own_s - before.own_s, *unsure)

    @property
    def waited_share(self) -> float | None:
        """The share of waiting in the time that threads ran or were ready to; None where unknown."""
        return None if self.waited_s is None else self.waited_s / max(self.waited_s + self.own_s, 1e-9)


class Disturbance(NamedTuple):
    """What disturbed the plain passes of a recording.

    - `processors` may be used; on average other processes kept `others` of them busy, and the host of a
      virtual machine `stolen`. None where unknown.
    - `waited_share`: of the time that threads ran or were ready to, the share they waited.
    - `spread`: the interquartile range of the passes' wall times, of their median.
    """

    processors: int = 1
    others: float | None = None
    stolen: float | None = None
    waited_share: float | None = None
    spread: float = 0.0


def disturbance(passes: Sequence[ProcessorTimes], walls: Sequence[float], processors: int) -> Disturbance:
    """The disturbance of passes by their processor times and wall times."""
    wall_s, own_s = sum(times.wall_s for times in passes), sum(times.own_s for times in passes)
    busy_s, stolen_s, waited_s = (_sum(column) for column in list(zip(*passes, strict=True))[2:])
    by_ticks = wall_s >= LEAST_S
    return Disturbance(
        processors,
        max(0.0, busy_s - own_s) / wall_s if by_ticks and busy_s is not None else None,
        stolen_s / wall_s if by_ticks and stolen_s is not None else None,
        ProcessorTimes(wall_s, own_s, waited_s=waited_s).waited_share,
        _spread(walls),
    )


def worst(disturbances: Iterable[Disturbance]) -> Disturbance:
    """The largest of every figure, of recordings that one result is made from."""
    processors, *rest, spreads = zip(*disturbances, strict=True)
    others, stolen, waited = (max((x for x in column if x is not None), default=None) for column in rest)
    return Disturbance(max(processors), others, stolen, waited, max(spreads))


def processor_times(proc: Path = PROC) -> ProcessorTimes:
    """The times as they stand now."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    busy, stolen = processor_seconds(proc)
    return ProcessorTimes(
        time.monotonic(), usage.ru_utime + usage.ru_stime, busy, stolen, waited_seconds(proc)
    )


def _spread(walls: Sequence[float]) -> float:
    if len(walls) < 2:  # noqa: PLR2004
        return 0.0
    # inclusive: by the default method the quartiles of two passes lie beyond both
    lower, _, upper = quantiles(walls, method="inclusive")
    return (upper - lower) / median(walls)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
