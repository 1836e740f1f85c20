"""Seconds: floor, expected time and range of whatever takes time, which add up."""

from __future__ import annotations

from typing import NamedTuple

from archcli.measure.predict.constants import StepConstants
from archcli.measure.predict.times import ATTENTION, PRODUCTS, KernelTime


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
        return Seconds(*(a + b for a, b in zip(self, other, strict=True)))

    def scaled(self, times: float) -> Seconds:
        """So many of it."""
        return Seconds(*(times * seconds for seconds in self))


def in_a_step(time: KernelTime, kind: str, constants: StepConstants | None) -> KernelTime:
    """The time of a kernel within a training step, by the constants of such steps.

    Products as if timed alone over their speed in steps, attention and other kernels at their floor over a
    fraction of the peak or of the bandwidth. Without such constants the kernel's own time.
    """
    if constants is None:
        return time
    if kind == PRODUCTS:
        alone = time.floor if time.expected is None else time.expected
        expected = alone / constants.matrix_products
    else:
        expected = time.floor / (constants.attention if kind == ATTENTION else constants.memory_bound)
    low, high = constants.origin.low * expected, constants.origin.high * expected
    return KernelTime(time.floor, expected, low, high, time.bound_by)
