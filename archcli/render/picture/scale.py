"""The scale of a diagram with two logarithmic axes."""

from __future__ import annotations

from math import log10
from typing import NamedTuple

from archcli.render.picture.labels import Box


class LogScale(NamedTuple):
    """Decades of both axes within a frame, whose margin keeps marks off its edges."""

    x: tuple[int, int]
    y: tuple[int, int]
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
