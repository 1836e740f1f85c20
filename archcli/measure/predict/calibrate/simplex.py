"""The simplex method of Nelder and Mead (1965), for functions of a few numbers without derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Point = tuple[float, ...]
Loss = Callable[[Point], float]
Vertex = tuple[float, Point]
"""A point with the function's value there first."""
ROUNDS, CLOSE, SIZES = 300, 1e-12, (0.5, 0.2, 0.05)
"""Most rounds of a simplex, the difference of values at which it ends, and the sizes that they begin with."""


def minimized(loss: Loss, start: Point) -> Point:
    """The numbers where a function is least near `start`, from simplices of shrinking size."""
    for size in SIZES:
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
