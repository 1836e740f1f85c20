"""The simplex method of Nelder and Mead (1965), for functions of a few numbers without derivatives."""

import numpy as np

ROUNDS, CLOSE = 900, 1e-10


def minimized(function, start, size=0.3):
    """The numbers where a function is least near `start`, from two simplices of shrinking size."""
    for scale in (size, size / 3):
        start = _descended(function, np.asarray(start, dtype=float), scale)
    return start


def _descended(function, start, size):
    points = [start, *(start + size * axis for axis in np.eye(len(start)))]
    pairs = [(function(point), point) for point in points]
    for _ in range(ROUNDS):
        pairs.sort(key=lambda pair: pair[0])
        if pairs[-1][0] - pairs[0][0] < CLOSE:
            break
        centre = np.mean([point for _, point in pairs[:-1]], axis=0)
        better = _moved(function, pairs, centre)
        if better is not None:
            pairs[-1] = better
            continue
        best = pairs[0][1]
        shrunk = [best + (point - best) / 2 for _, point in pairs[1:]]
        pairs = [pairs[0], *((function(point), point) for point in shrunk)]
    return min(pairs, key=lambda pair: pair[0])[1]


def _moved(function, pairs, centre):
    """The worst point reflected, expanded or contracted; None where none of these is better."""

    def tried(factor):
        point = centre + factor * (centre - pairs[-1][1])
        return function(point), point

    reflected = tried(1)
    if reflected[0] < pairs[0][0]:
        return min(reflected, tried(2), key=lambda pair: pair[0])
    if reflected[0] < pairs[-2][0]:
        return reflected
    contracted = tried(-0.5)
    return contracted if contracted[0] < pairs[-1][0] else None
