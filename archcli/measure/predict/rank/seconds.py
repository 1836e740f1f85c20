"""Seconds: floor, expected time and range of whatever takes time, which add up."""

from __future__ import annotations

from typing import NamedTuple

from archcli.measure.predict.times import KernelTime


class Seconds(NamedTuple):
    """Seconds of kernels one after the other; what has no constants is expected at its floor."""

    floor: float = 0.0
    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def of(cls, time: KernelTime) -> Seconds:
        """Those of a kernel."""
        known = (time.expected, time.low, time.high)
        return cls(time.floor, *(time.floor if seconds is None else seconds for seconds in known))

    def plus(self, other: Seconds) -> Seconds:
        """Both, one after the other."""
        return Seconds(
            self.floor + other.floor,
            self.expected + other.expected,
            # as if all kernels erred the same way: the range of a pass is wide rather than narrow
            self.low + other.low,
            self.high + other.high,
        )

    def scaled(self, times: float) -> Seconds:
        """So many of it."""
        return Seconds(times * self.floor, times * self.expected, times * self.low, times * self.high)

    def at_least_within(self, low: float, high: float) -> Seconds:
        """The same with a range that holds these shares of the expected time."""
        return self._replace(
            low=min(self.low, low * self.expected), high=max(self.high, high * self.expected)
        )

    def told(self, *, expected: bool) -> float:
        """The expected seconds, or the floor."""
        return self.expected if expected else self.floor
