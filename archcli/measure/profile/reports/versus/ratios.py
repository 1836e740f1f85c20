"""Ratios of two variants that were timed in turn: one per round of passes, shown as median and spread.

A slow second slows both passes of a round, so that ratios scatter less than times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles

from archcli.measure.profile.operators import line_of
from archcli.measure.profile.schema.versus import Ratios
from archcli.recording.classes import FRAMEWORK
from archcli.recording.operations import ClassKey
from archcli.recording.recording import Timing

NONE: Ratios = {"ratio": None, "ratio_q1": None, "ratio_q3": None, "ratio_min": None, "ratio_max": None}
"""The ratios where there is nothing to divide by."""


def ratios(base: Sequence[float], variant: Sequence[float]) -> Ratios:
    """variant/base of every round; None where either took no time in some round."""
    if len(base) != len(variant) or not base or min(base) <= 0 or min(variant) <= 0:
        return NONE
    by_round = [after / before for before, after in zip(base, variant, strict=True)]
    q1, _, q3 = quantiles(by_round, n=4, method="inclusive") if len(by_round) > 1 else 3 * by_round
    return {
        "ratio": median(by_round),
        "ratio_q1": q1,
        "ratio_q3": q3,
        "ratio_min": min(by_round),
        "ratio_max": max(by_round),
    }


def class_seconds(timing: Timing, op_class: str) -> list[float]:
    """Seconds of a class in each round; framework is the traced time outside of operations."""
    if op_class != FRAMEWORK:
        return _sums(timing, lambda key: key.op_class == op_class)
    operations = _sums(timing, lambda key: key.op_class != FRAMEWORK)
    return [traced - seconds for traced, seconds in zip(timing.recording.traced_s, operations, strict=True)]


def operator_seconds(timing: Timing, name: str, depth: int) -> list[float]:
    """Seconds of an operator in each round, by the name of its line."""
    return _sums(timing, lambda key: key.op_class != FRAMEWORK and line_of(key, depth) == name)


def _sums(timing: Timing, chosen: Callable[[ClassKey], bool]) -> list[float]:
    return [sum(seconds for key, seconds in places.items() if chosen(key)) for places in timing.places]
