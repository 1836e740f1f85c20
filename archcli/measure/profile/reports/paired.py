"""Ratios of two variants that were timed in turn: one ratio a round, of which the median and the spread are told.

A slow second slows both passes of a round, so that ratios scatter less than times; the ratio of two medians would not know of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from archcli.measure.profile.fold import place_of
from archcli.measure.profile.schema.versus import Ratios
from archcli.recording.classes import FRAMEWORK

if TYPE_CHECKING:
    from archcli.recording.operations import ClassKey
    from archcli.recording.recording import Timing


class Spread(NamedTuple):
    """Ratios over the rounds: median, quartiles, extremes."""

    median: float
    q1: float
    q3: float
    least: float
    most: float

    def figures(self) -> Ratios:
        """By the names JSON gives them."""
        return {
            "ratio": self.median,
            "ratio_q1": self.q1,
            "ratio_q3": self.q3,
            "ratio_min": self.least,
            "ratio_max": self.most,
        }


NONE: Ratios = {"ratio": None, "ratio_q1": None, "ratio_q3": None, "ratio_min": None, "ratio_max": None}
"""The figures where there is nothing to divide by."""


def ratios(base: Sequence[float], other: Sequence[float]) -> Ratios:
    """The figures of other/base, round by round; None where one of the two took no time in some round."""
    if len(base) != len(other) or not base or min(base) <= 0 or min(other) <= 0:
        return NONE
    found = [b / a for a, b in zip(base, other, strict=True)]
    q1, _, q3 = quantiles(found, n=4, method="inclusive") if len(found) > 1 else 3 * found
    return Spread(median(found), q1, q3, min(found), max(found)).figures()


def of_class(timing: Timing, name: str) -> list[float]:
    """Seconds of a class in each round; the framework's are what no operation of a traced pass took."""
    if name == FRAMEWORK:
        taken = _sums(timing, lambda place: place.op_class != FRAMEWORK)
        return [traced - seconds for traced, seconds in zip(timing.recording.traced_s, taken, strict=True)]
    return _sums(timing, lambda place: place.op_class == name)


def of_path(timing: Timing, path: str, depth: int) -> list[float]:
    """Seconds of an operator in each round, by its path as a table folds it."""
    return _sums(timing, lambda place: place.op_class != FRAMEWORK and place_of(place, depth) == path)


def _sums(timing: Timing, chosen: Callable[[ClassKey], bool]) -> list[float]:
    return [sum(seconds for place, seconds in places.items() if chosen(place)) for places in timing.places]
