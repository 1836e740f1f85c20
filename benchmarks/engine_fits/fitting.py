"""Fits of constants in log time, and errors of shapes that no fit has seen.

What is least is the sum over rows of |expected / measured - 1|, and of the squares of how far constants are
from where they are expected. Constants are positive, so that their logarithms are what is fitted. A kernel is
fitted on each device alone first; the median of these is where each device's constants are expected, which
holds those that few rows tell.
"""

import numpy as np

from engine_fits.kinds import BOUNDS, START
from engine_fits.tables import length, taken

SMALL = 1e-4
LEAST_RESIDUAL = 0.02
"""Residuals below count as squares, so that the sum of absolute ones can be descended."""
LONGEST_STEP = 1.0
SIGNIFICANT = 4


class Problem:
    """A kernel on a device: its rows as a call, and what a set of constants makes of them."""

    def __init__(self, kind, kernel, device, rows):
        self.kind, self.device, self.rows = kind, device, rows
        self.names, self.fixed = kind.stated(kernel, str(rows["engine"][0]), str(rows["device"][0]))
        self.free = [name for name in self.names if name not in self.fixed]
        self.call = kind.call(rows)
        self.measured = np.log(rows["time_us"] * 1e-6)

    def start(self):
        """The logarithms of where the constants start."""
        return np.log([self.kind.start.get(name, START[name][0]) for name in self.free])

    def spread(self):
        """How far each may well be from there."""
        return np.array([START[name][1] for name in self.free])

    def constants(self, logs):
        """The record of constants."""
        values = dict(zip(self.free, np.exp(logs), strict=True))
        for name, (low, high) in BOUNDS.items():
            if name in values:
                values[name] = min(max(values[name], low), high)
        if self.kind.name.endswith("_decode") and "keep" in values:
            values["cached"] = max(values["cached"], 1.0)
        known = {name: value for name, value in self.fixed.items() if name in self.kind.constants._fields}
        return self.kind.constants(**{**known, **values})

    def residuals(self, logs):
        """log(expected / measured) of each row."""
        seconds = self.kind.seconds(self.constants(logs), self.call, self.device)
        return np.log(seconds) - self.measured

    def part(self, where):
        """The same with some of the rows."""
        few = object.__new__(Problem)
        few.__dict__.update(self.__dict__)
        few.rows = taken(self.rows, where)
        few.call = type(self.call)(
            *(value[where] if getattr(value, "ndim", 0) else value for value in self.call)
        )
        few.measured = self.measured[where]
        return few


def fitted(problem, begin, expected, rounds=25):
    """The logarithms of the constants that fit best, from `begin`; Levenberg and Marquardt's descent."""
    logs, damping = np.array(begin, dtype=float), 1e-2
    weight = 1 / problem.spread() ** 2

    def loss(at):
        return np.abs(np.expm1(problem.residuals(at))).sum() + (weight * (at - expected) ** 2).sum()

    now = loss(logs)
    for _ in range(rounds):
        better, damping = _step(problem, logs, expected, weight, damping, now, loss)
        if better is None:
            break
        gain, (now, logs) = now - better[0], better
        if gain < 1e-5 * now:
            break
    return logs


def _step(problem, logs, expected, weight, damping, now, loss):
    """A lower loss and where it is, None where there is none near; and the next damping."""
    here = problem.residuals(logs)
    slopes = np.array(
        [(problem.residuals(logs + SMALL * axis) - here) / SMALL for axis in np.eye(len(logs))]
    ).T
    importance = np.maximum(np.abs(np.expm1(here)) / np.maximum(here**2, LEAST_RESIDUAL**2), 1e-3)
    square = (slopes * importance[:, None]).T @ slopes + np.diag(2 * weight)
    down = -((slopes * importance[:, None]).T @ here + 2 * weight * (logs - expected))
    for _ in range(6):
        step = np.linalg.solve(square + damping * np.diag(np.diag(square)), down)
        there = logs + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        found = loss(there)
        if found < now:
            return (found, there), max(damping / 5, 1e-6)
        damping = max(damping * 6, 1e-3)
    return None, damping


def fit_devices(problems, begins=None, rounds=25):
    """The constants of a kernel on each of its devices, as logarithms by device, and where they start."""
    alone = {}
    for name, problem in problems.items():
        start = problem.start()
        begin = start if begins is None else begins[name]
        alone[name] = fitted(problem, begin, start, rounds)
    expected = np.median(list(alone.values()), axis=0)
    return {name: fitted(problem, alone[name], expected, rounds) for name, problem in problems.items()}


def shapes_of(kind, rows):
    """The shape of each row, as a text."""
    return np.array(
        [
            "-".join(f"{value:g}" for value in shape)
            for shape in zip(*(rows[n] for n in kind.shape), strict=True)
        ]
    )


def held_out(kind, problems, logs):
    """log(expected / measured) of each row by constants fitted without its shape, by device.

    A kernel's only shape is predicted with the constants that all fits start from.
    """
    shapes = {name: shapes_of(kind, problem.rows) for name, problem in problems.items()}
    found = {name: np.zeros(length(problem.rows)) for name, problem in problems.items()}
    for shape in sorted(set(np.concatenate(list(shapes.values())))):
        rest = {name: problems[name].part(shapes[name] != shape) for name in problems}
        rest = {name: problem for name, problem in rest.items() if length(problem.rows)}
        without = fit_devices(rest, logs, rounds=4) if rest else {}
        middle = np.median(list(without.values()), axis=0) if without else None
        for name in problems:
            out = shapes[name] == shape
            if out.any():
                start = problems[name].start() if middle is None else middle
                found[name][out] = problems[name].part(out).residuals(without.get(name, start))
    return found
