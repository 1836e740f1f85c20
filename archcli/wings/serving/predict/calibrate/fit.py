"""Fit constants to samples by the Nelder-Mead simplex method, and cross-validate them by size.

The loss is the mean of |log(expected / measured)|, smooth near 0: unlike a square it is robust to a disturbed
row. Rows are weighted by their share of the seconds of their pass, as predictions are of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from typing import Any, NamedTuple

from archcli.wings.serving.predict.calibrate.samples import RowSample
from archcli.wings.serving.predict.constants import KernelConstants, Origin

Point = tuple[float, ...]
Loss = Callable[[Point], float]
Vertex = tuple[float, Point]
"""(value of the function, point)."""
ROUNDS, CLOSE, SIZES = 300, 1e-12, (0.5, 0.2, 0.05)
"""Most rounds of a simplex, the difference of losses that ends it, and its first sizes, in turn."""


def minimized(loss: Loss, start: Point) -> Point:
    """A local minimum of a function near `start`, by simplices of decreasing size."""
    for size in SIZES:
        # restart at the minimum: a simplex may collapse before it gets there
        start = _descended(loss, start, size)
    return start


def _descended(loss: Loss, start: Point, size: float) -> Point:
    """The best point of one simplex that begins at `start` with steps of `size`."""
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
"""The exponent of matrix products, and the number of sizes from which on it is fitted."""
LEAST_EXPONENT, MOST_EXPONENT = 1.0, 16.0
ROUND, LARGEST = 0.01, 30.0
"""Errors below which the loss is nearly a square; the bound of a logarithm."""
# the range of an answer, low to high, holds the 80% of the seconds between these
LOW, HIGH = 0.1, 0.9
FOLDS = 10
"""Folds of the cross-validation; with fewer sizes each is a fold."""
FINEST = 1e-9
"""The shortest launch, in seconds, at the start of the search."""


def expected_seconds(constants: KernelConstants, sample: RowSample) -> float:
    """Expected seconds of a row; its kernels of other kinds count at their floor."""
    total = sample.others_s
    for work in sample.works:
        terms = constants.terms(work.bare, 0.0).at_least(work.bound)
        total += work.times * terms.joined(constants.exponent)
    return total


ConstantsOf = Callable[[Point], KernelConstants]
"""Maps unbounded numbers, which the simplex moves, to constants."""


class HeldOut(NamedTuple):
    """measured / expected of a held-out row, and its share of the seconds of its pass."""

    ratio: float
    share: float


class Fitted(NamedTuple):
    """Constants fitted to all samples, and their errors on sizes that were held out in turn."""

    constants: KernelConstants
    held_out: tuple[HeldOut, ...]

    def origin(self, table: str, date: str) -> Origin:
        """The origin of the constants: mean error weighted by seconds, and the range of the ratios."""
        error = sum(row.share * abs(1 / row.ratio - 1) for row in self.held_out)
        error /= sum(row.share for row in self.held_out)
        # the range includes 1, the expected time, even if all held-out rows are on one side of it
        edges = (min(1.0, quantile(self.held_out, LOW)), max(1.0, quantile(self.held_out, HIGH)))
        return Origin(error, *edges, len(self.held_out), table, date)


def fit(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Fitted:
    """Fit constants to all samples, and cross-validate them by size in at most FOLDS folds."""
    every = _numbers(samples, start, constants_of)
    # folds by size, not by row: other rows of the same kernels would leak into the fit
    folds = {size: i % FOLDS for i, size in enumerate(dict.fromkeys(sample.size for sample in samples))}
    held_out = []
    for fold in range(min(FOLDS, len(folds))):
        fitted = [sample for sample in samples if folds[sample.size] != fold]
        constants = constants_of(_numbers(fitted, start, constants_of))
        for sample in samples:
            if folds[sample.size] == fold:
                ratio = sample.seconds / expected_seconds(constants, sample)
                held_out.append(HeldOut(ratio, sample.share))
    return Fitted(constants_of(every), tuple(held_out))


def _numbers(samples: Sequence[RowSample], start: Point, constants_of: ConstantsOf) -> Point:
    """The numbers of least loss, weighted by the rows' shares."""
    alike: dict[RowSample, list[RowSample]] = {}
    for sample in samples:
        # equal kernels have one expected time, which the loss computes once for all their rows
        alike.setdefault(sample._replace(seconds=0.0, share=0.0), []).append(sample)
    measured = [(sample, [(log(row.seconds), row.share) for row in rows]) for sample, rows in alike.items()]

    def loss(numbers: Point) -> float:
        constants, total = constants_of(numbers), 0.0
        for sample, rows in measured:
            expected = log(expected_seconds(constants, sample))
            total += sum(share * sqrt((expected - row) ** 2 + ROUND * ROUND) for row, share in rows)
        return total

    return minimized(loss, start)


def of_movements(numbers: Point) -> KernelConstants:
    """Constants of memory-bound kernels: launch and memory."""
    launch, memory = map(_positive, numbers)
    return KernelConstants.of_memory(launch, memory)


def of_products(numbers: Point) -> KernelConstants:
    """Constants of matrix products: launch, compute, memory and, as a fourth number, the exponent."""
    launch, compute, memory, *more = map(_positive, numbers)
    exponent = min(LEAST_EXPONENT + more[0], MOST_EXPONENT) if more else EXPONENT
    return KernelConstants(launch, 0.0, compute, memory, exponent)


def of_attention(products: KernelConstants) -> ConstantsOf:
    """Constants of fused attention: those of products, with its own fraction of the peak."""
    return lambda numbers: products._replace(compute=_positive(numbers[0]))


def _positive(number: float) -> float:
    # a simplex may step far out: exp would overflow, or be 0, a divisor of times
    return exp(max(-LARGEST, min(number, LARGEST)))


def launch_start(samples: Sequence[RowSample]) -> float:
    """The logarithm of a launch to begin with: a tenth of the shortest kernel measured."""
    least = min(sample.seconds / sum(work.times for work in sample.works) for sample in samples)
    return log(max(least / 10, FINEST))


def quantile(held_out: Sequence[HeldOut], part: float) -> float:
    """The quantile of the ratios, weighted by seconds and interpolated linearly."""
    ordered = sorted(held_out)
    total, below = sum(row.share for row in ordered), 0.0
    last_at, last = 0.0, ordered[0].ratio
    for row in ordered:
        # a row is at the middle of its weight
        at = (below + row.share / 2) / total
        if at >= part:
            span = at - last_at
            return row.ratio if span <= 0 else last + (part - last_at) / span * (row.ratio - last)
        below, last_at, last = below + row.share, at, row.ratio
    return last


def entry(constants: dict[str, float], origin: Origin) -> dict[str, Any]:
    """An entry of `efficiency:` in a device's YAML: the constants and their origin."""
    return {**constants, **{key: value for key, value in origin._asdict().items() if value != ""}}
