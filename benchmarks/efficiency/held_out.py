"""Fits with groups of rows held out: constants of all rows, and errors of rows that no fit has seen."""

from dataclasses import dataclass

import numpy as np

from efficiency.simplex import minimized

FOLDS, DIGITS = 5, 4
OUTER = (0.1, 0.9)
"""Quantiles that 80% of the rows lie between."""


@dataclass(frozen=True)
class Fit:
    """Numbers fitted on all rows, and measured over expected of each row while it was held out."""

    numbers: np.ndarray
    ratios: np.ndarray

    @property
    def error(self):
        """The mean error of what was held out."""
        return mean_error(self.ratios)

    def origin(self, table, date):
        """What the YAML says of it."""
        return {**spread(self.ratios), "rows": len(self.ratios), "table": table, "fitted": date}


def mean_error(ratios):
    """The mean of |expected / measured - 1|, of measured over expected."""
    return float(np.mean(np.abs(1 / ratios - 1)))


def spread(ratios):
    """The mean error, and the range that 80% of measured over expected lie in."""
    low, high = np.quantile(ratios, OUTER)
    return {"error": rounded(mean_error(ratios), 3), "low": rounded(low, 3), "high": rounded(high, 3)}


def rounded(number, digits=DIGITS):
    """A number of so many significant digits."""
    return float(f"{float(number):.{digits}g}")


def share(number):
    """A fraction below 1 that an unbounded number stands for."""
    return 1 / (1 + np.exp(-number))


def folds(keys):
    """A fold of each row: rows of one key are held out together; a fixed seed spreads the keys."""
    distinct = sorted(set(keys))
    order = np.random.default_rng(0).permutation(len(distinct))
    fold = {distinct[at]: i % FOLDS for i, at in enumerate(order)}
    return np.array([fold[key] for key in keys])


def fit(seconds, measured, fold, start):
    """Fit `seconds(numbers, rows)` to measured seconds, by the mean of |log(expected / measured)|.

    `fold` says which rows are held out together.
    """
    measured, every = np.asarray(measured), np.arange(len(measured))

    def fitted(rows):
        def loss(numbers):
            return np.mean(np.abs(np.log(seconds(numbers, rows) / measured[rows])))

        return minimized(loss, start)

    ratios = np.empty(len(measured))
    for held in sorted(set(fold)):
        out = every[fold == held]
        ratios[out] = measured[out] / seconds(fitted(every[fold != held]), out)
    return Fit(fitted(every), ratios)
