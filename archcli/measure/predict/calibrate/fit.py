"""Fits of constants to samples, and their error on sizes that were left out.

The loss is the mean of |log(expected / measured)|, rounded off near 0, so that one disturbed row does not
decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from typing import Any, NamedTuple

from archcli.measure.predict.calibrate.samples import RowSample
from archcli.measure.predict.calibrate.simplex import Point, minimized
from archcli.measure.predict.constants import Origin
from archcli.measure.predict.terms import Terms

EXPONENT, SIZES_FOR_EXPONENT = 2.0, 8
"""The exponent of matrix products, and from how many sizes on it is fitted, too."""
LEAST_EXPONENT, MOST_EXPONENT = 1.0, 16.0
ROUND, LARGEST = 0.01, 30.0
"""Errors below which the loss is a square, and the most that a number's logarithm is."""
LOW, HIGH = 0.1, 0.9
MICRO = 1e-6
FINEST = 1e-9
"""Seconds of a launch that the search begins with at least."""


class Constants(NamedTuple):
    """Seconds of a launch, fractions of the peak and of the bandwidth, and the exponent that joins them."""

    launch: float
    compute: float
    memory: float
    exponent: float = EXPONENT

    def seconds(self, sample: RowSample) -> float:
        """Expected seconds of a row, what runs beside the kernels that it stands for at its floor."""
        total = sample.beside
        for work in sample.works:
            compute, memory = work.bare.compute / self.compute, work.bare.memory / self.memory
            terms = Terms(self.launch, compute, memory).at_least(work.bound)
            total += work.times * terms.joined(self.exponent)
        return total


ConstantsOf = Callable[[Point], Constants]
"""Constants from numbers without bounds."""


class Fitted(NamedTuple):
    """Constants of all samples, and measured over expected of each while its size was left out."""

    constants: Constants
    ratios: tuple[float, ...]

    def origin(self, table: str, date: str) -> Origin:
        """Where the constants are from, and how far they were off what no fit had seen."""
        error = sum(abs(1 / ratio - 1) for ratio in self.ratios) / len(self.ratios)
        edges = (quantile(self.ratios, LOW), quantile(self.ratios, HIGH))
        return Origin(error, *edges, len(self.ratios), table, date)


def fit(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Fitted:
    """Fit constants to samples, and to all but each size in turn."""
    ratios: dict[int, float] = {}
    for size in dict.fromkeys(sample.size for sample in samples):
        others = constants_of(_numbers([one for one in samples if one.size != size], start, constants_of))
        for i, one in enumerate(samples):
            if one.size == size:
                ratios[i] = one.seconds / others.seconds(one)
    every = constants_of(_numbers(samples, start, constants_of))
    return Fitted(every, tuple(ratios[i] for i in range(len(samples))))


def _numbers(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Point:
    def loss(numbers: Point) -> float:
        constants = constants_of(numbers)
        errors = (log(constants.seconds(sample) / sample.seconds) for sample in samples)
        return sum(sqrt(error * error + ROUND * ROUND) for error in errors) / len(samples)

    return minimized(loss, start)


def of_movements(numbers: Point) -> Constants:
    """Constants of kernels that memory bounds: launch and memory."""
    launch, memory = map(_positive, numbers)
    return Constants(launch, 1.0, memory, 1.0)


def of_products(numbers: Point) -> Constants:
    """Constants of matrix products: launch, compute, memory and, as a fourth number, the exponent."""
    launch, compute, memory, *more = map(_positive, numbers)
    exponent = min(LEAST_EXPONENT + more[0], MOST_EXPONENT) if more else EXPONENT
    return Constants(launch, compute, memory, exponent)


def of_attention(products: Constants) -> ConstantsOf:
    """Constants of attention in one kernel: those of products but for the fraction of the peak."""
    return lambda numbers: products._replace(compute=_positive(numbers[0]))


def _positive(number: float) -> float:
    return exp(max(-LARGEST, min(number, LARGEST)))


def launch_start(samples: Sequence[RowSample]) -> float:
    """The logarithm of a launch to begin with: a tenth of the shortest kernel measured."""
    least = min(one.seconds / sum(work.times for work in one.works) for one in samples)
    return log(max(least / 10, FINEST))


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of values, between two of them in proportion."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def entry(constants: dict[str, float], origin: Origin) -> dict[str, Any]:
    """What `efficiency:` of a device's YAML would say: the constants and their origin."""
    return {**constants, **{key: value for key, value in origin._asdict().items() if value != ""}}
