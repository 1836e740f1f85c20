"""Fits of constants to samples by the simplex method, and their error on sizes that were left out.

The loss is the mean of |log(expected / measured)|, rounded off near 0, so that one disturbed row does not
decide. A row counts by its share of the seconds of its pass: what is predicted are passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from typing import Any, NamedTuple

from archcli.measure.predict.calibrate.samples import RowSample
from archcli.measure.predict.constants import KernelConstants, Origin

Point = tuple[float, ...]
Loss = Callable[[Point], float]
Vertex = tuple[float, Point]
"""A point with the function's value there first."""
ROUNDS, CLOSE, SIZES = 300, 1e-12, (0.5, 0.2, 0.05)
"""Most rounds of a simplex, the difference of values at which it ends, and the sizes that they begin with."""


def minimized(loss: Loss, start: Point) -> Point:
    """The numbers where a function is least near `start`, from simplices of shrinking size."""
    for size in SIZES:
        # begun anew at the minimum: a simplex may have become flat before it got there
        start = _descended(loss, start, size)
    return start


def _descended(loss: Loss, start: Point, size: float) -> Point:
    points = [start, *(_stepped(start, axis, size) for axis in range(len(start)))]
    vertices = [(loss(point), point) for point in points]
    for _ in range(ROUNDS):
        vertices.sort()
        if vertices[-1][0] - vertices[0][0] < CLOSE:
            break
        better = _moved(loss, vertices)
        if better is None:
            best = vertices[0][1]
            shrunk = [_between(best, point, 0.5) for _, point in vertices[1:]]
            vertices[1:] = [(loss(point), point) for point in shrunk]
        else:
            vertices[-1] = better
    return min(vertices)[1]


def _moved(loss: Loss, vertices: Sequence[Vertex]) -> Vertex | None:
    """The worst point reflected, expanded or contracted; None where none of these is better."""
    worst, others = vertices[-1], [point for _, point in vertices[:-1]]
    centre = tuple(sum(numbers) / len(others) for numbers in zip(*others, strict=True))

    # Nelder and Mead 1965 (doi:10.1093/comjnl/7.4.308): reflect by 1, expand by 2, contract by 1/2
    def tried(factor: float) -> Vertex:
        point = _between(centre, worst[1], -factor)
        return loss(point), point

    reflected = tried(1.0)
    if reflected[0] < vertices[0][0]:
        return min(reflected, tried(2.0))
    if reflected[0] < vertices[-2][0]:
        return reflected
    contracted = tried(-0.5)
    return contracted if contracted[0] < worst[0] else None


def _stepped(point: Point, axis: int, size: float) -> Point:
    return tuple(number + size * (i == axis) for i, number in enumerate(point))


def _between(a: Point, b: Point, share: float) -> Point:
    return tuple(x + share * (y - x) for x, y in zip(a, b, strict=True))


EXPONENT, SIZES_FOR_EXPONENT = 2.0, 8
"""The exponent of matrix products, and from how many sizes on it is fitted, too."""
LEAST_EXPONENT, MOST_EXPONENT = 1.0, 16.0
ROUND, LARGEST = 0.01, 30.0
"""Errors below which the loss is a square, and the most that a number's logarithm is."""
LOW, HIGH = 0.1, 0.9
FOLDS = 10
"""Parts of the sizes that are left out in turn, each size alone where there are no more."""
FINEST = 1e-9
"""Seconds of a launch that the search begins with at least."""


def expected_seconds(constants: KernelConstants, sample: RowSample) -> float:
    """Expected seconds of a row; its kernels of other kinds count at their floor."""
    total = sample.beside
    for work in sample.works:
        terms = constants.terms(work.bare, 0.0).at_least(work.bound)
        total += work.times * terms.joined(constants.exponent)
    return total


ConstantsOf = Callable[[Point], KernelConstants]
"""Constants from numbers without bounds."""


class HeldOut(NamedTuple):
    """Measured over expected of what no fit had seen, and its share of the seconds of its pass."""

    ratio: float
    share: float


class Fitted(NamedTuple):
    """Constants fitted to all samples, and their errors on sizes that were held out in turn."""

    constants: KernelConstants
    held_out: tuple[HeldOut, ...]

    def origin(self, table: str, date: str) -> Origin:
        """Where the constants are from, and how far they were off, seconds counted alike."""
        error = sum(one.share * abs(1 / one.ratio - 1) for one in self.held_out)
        error /= sum(one.share for one in self.held_out)
        # the range holds the expected time, also where all that was held out lies on one side of it
        edges = (min(1.0, quantile(self.held_out, LOW)), max(1.0, quantile(self.held_out, HIGH)))
        return Origin(error, *edges, len(self.held_out), table, date)


def fit(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Fitted:
    """Fit constants to samples, and to all but a part of the sizes in turn, at most FOLDS times."""
    every = _numbers(samples, start, constants_of)
    # by size, not by row: another row of the same kernels would tell the fit what is held out
    folds = {size: i % FOLDS for i, size in enumerate(dict.fromkeys(sample.size for sample in samples))}
    held_out = []
    for fold in range(min(FOLDS, len(folds))):
        others = [one for one in samples if folds[one.size] != fold]
        constants = constants_of(_numbers(others, start, constants_of))
        left = [one for one in samples if folds[one.size] == fold]
        held_out += [HeldOut(one.seconds / expected_seconds(constants, one), one.share) for one in left]
    return Fitted(constants_of(every), tuple(held_out))


def _numbers(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Point:
    """The numbers of least loss: rows count by their share of their pass."""
    alike: dict[RowSample, list[RowSample]] = {}
    for sample in samples:
        # equal kernels have one expected time, which the loss computes once for all their rows
        alike.setdefault(sample._replace(seconds=0.0, share=0.0), []).append(sample)
    measured = [(one, [(log(row.seconds), row.share) for row in rows]) for one, rows in alike.items()]

    def loss(numbers: Point) -> float:
        constants, total = constants_of(numbers), 0.0
        for sample, rows in measured:
            expected = log(expected_seconds(constants, sample))
            total += sum(share * sqrt((expected - row) ** 2 + ROUND * ROUND) for row, share in rows)
        return total

    return minimized(loss, start)


def of_movements(numbers: Point) -> KernelConstants:
    """Constants of kernels that memory bounds: launch and memory."""
    launch, memory = map(_positive, numbers)
    return KernelConstants.of_memory(launch, memory)


def of_products(numbers: Point) -> KernelConstants:
    """Constants of matrix products: launch, compute, memory and, as a fourth number, the exponent."""
    launch, compute, memory, *more = map(_positive, numbers)
    exponent = min(LEAST_EXPONENT + more[0], MOST_EXPONENT) if more else EXPONENT
    return KernelConstants(launch, 0.0, compute, memory, exponent)


def of_attention(products: KernelConstants) -> ConstantsOf:
    """Constants of attention in one kernel: those of products but for the fraction of the peak."""
    return lambda numbers: products._replace(compute=_positive(numbers[0]))


def _positive(number: float) -> float:
    # a simplex may step far out: exp would overflow, or give a 0 that times are divided by
    return exp(max(-LARGEST, min(number, LARGEST)))


def launch_start(samples: Sequence[RowSample]) -> float:
    """The logarithm of a launch to begin with: a tenth of the shortest kernel measured."""
    least = min(one.seconds / sum(work.times for work in one.works) for one in samples)
    return log(max(least / 10, FINEST))


def quantile(held_out: Sequence[HeldOut], part: float) -> float:
    """The ratio below which a part of the seconds lies, between two ratios in proportion."""
    ordered = sorted(held_out)
    total, below = sum(one.share for one in ordered), 0.0
    last_at, last = 0.0, ordered[0].ratio
    for one in ordered:
        at = (below + one.share / 2) / total
        if at >= part:
            span = at - last_at
            return one.ratio if span <= 0 else last + (part - last_at) / span * (one.ratio - last)
        below, last_at, last = below + one.share, at, one.ratio
    return last


def entry(constants: dict[str, float], origin: Origin) -> dict[str, Any]:
    """What `efficiency:` of a device's YAML would say: the constants and their origin."""
    return {**constants, **{key: value for key, value in origin._asdict().items() if value != ""}}
