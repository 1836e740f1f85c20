"""The scale of a diagram with two logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from archcli.render.picture.labels import Box

STEPS = (1, 2, 5)
MOST_TICKS = 8
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PREFIXES = ("", "K", "M", "G", "T", "P", "E")


def ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten, from at most the least value to at least the largest.

    Of a range of many, the powers of ten between its ends.
    """
    least, most = floor(log10(min(values))), ceil(log10(max(values)))
    steps = [step * 10.0**power for power in range(least, most + 1) for step in STEPS]
    below = [step for step in steps if step <= min(values)]
    above = [step for step in steps if step >= max(values) and step > below[-1]]
    within = [step for step in steps if below[-1] <= step <= above[0]]
    if len(within) <= MOST_TICKS:
        return within
    powers = [step for step in within[1:-1] if step in {10.0**power for power in range(least, most + 1)}]
    return [within[0], *powers, within[-1]]


def prefixed(value: float) -> str:
    """A power of ten from 1 up with a metric prefix: 100G, 1T."""
    power = min(max(round(log10(value)) // 3, 0), len(PREFIXES) - 1)
    return f"{value / 1000.0**power:g}{PREFIXES[power]}"


def powers_of_ten(decades: Sequence[int]) -> list[str]:
    """Labels of an axis: 0.01, 1 and 1,000; as 10⁻⁶ where one of them would be long."""
    if min(decades) < -3 or max(decades) > 5:  # noqa: PLR2004
        return [f"10{str(decade).translate(SUPERSCRIPTS)}" for decade in decades]
    return [f"{10.0**decade:,g}" if decade < 0 else f"{10**decade:,}" for decade in decades]


class LogScale(NamedTuple):
    """Both axes by the logarithms of their ends, in a frame whose margin keeps marks off its edges."""

    x: tuple[float, float]
    y: tuple[float, float]
    frame: Box
    margin: float

    @property
    def decade_width(self) -> float:
        """Pixels of a decade across."""
        return (self.frame.right - self.frame.left - 2 * self.margin) / (self.x[1] - self.x[0])

    @property
    def decade_height(self) -> float:
        """Pixels of a decade up."""
        return (self.frame.bottom - self.frame.top - 2 * self.margin) / (self.y[1] - self.y[0])

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        """The point of a value of each axis."""
        across = (log10(intensity) - self.x[0]) * self.decade_width
        up = (log10(speed) - self.y[0]) * self.decade_height
        return self.frame.left + self.margin + across, self.frame.bottom - self.margin - up

    def intensities(self) -> tuple[float, float]:
        """The values at the left and the right edge of the frame."""
        beyond = self.margin / self.decade_width
        return 10.0 ** (self.x[0] - beyond), 10.0 ** (self.x[1] + beyond)

    def speeds(self) -> tuple[float, float]:
        """The values at the lower and the upper edge of the frame."""
        beyond = self.margin / self.decade_height
        return 10.0 ** (self.y[0] - beyond), 10.0 ** (self.y[1] + beyond)
