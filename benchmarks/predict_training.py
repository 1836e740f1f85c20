"""Predict the training runs of llm-foundry's table, each by constants that have not seen its model size.

    python benchmarks/predict_training.py           # a line for each device, and what is demanded
    python benchmarks/predict_training.py --rows    # and a line for each run

Of each device four constants are fitted on the runs in bf16 of all model sizes but one, which is then
predicted. The printed range of such a run is that of the sizes fitted on, each held out in turn. Some 10
seconds.
"""

import argparse

import numpy as np
from efficiency.held_out import OUTER, fit, mean_error
from efficiency.steps import MEASURED, START, fitted, steps_of

MOST_ERROR, MOST_OF_90, INSIDE = 0.05, 0.1, (0.75, 0.9)


def inside(steps, ratios):
    """Whether each measured time lies in the range printed for it, by errors of the other sizes alone."""
    within = np.empty(len(ratios), dtype=bool)
    for size in set(steps.fold):
        held, others = steps.fold == size, np.flatnonzero(steps.fold != size)
        low, high = np.quantile(_without(steps, others), OUTER)
        within[held] = (low <= ratios[held]) & (ratios[held] <= high)
    return within


def _without(steps, rows):
    """Measured over expected of rows, each model size held out in turn of those rows alone."""

    def seconds(numbers, some):
        return steps.expected(numbers, rows[some])

    return fit(seconds, steps.measured[rows], steps.fold[rows], START).ratios


def show_rows(steps, ratios, within):
    """Print a line for each run."""
    for row, ratio, seconds, is_in in zip(steps.rows, ratios, steps.measured, within, strict=True):
        recomputed = "recomputed" if row["activation_checkpointing"] == "True" else ""
        run = f"{row['model']:9s}{row['n_devices']:>4s} x {row['micro_batch']:>3s} x {row['seq_len']:>6s}"
        print(f"  {run} {recomputed:11s}{seconds:9.2f} s {1 / ratio - 1:+7.1%}{'' if is_in else '  outside'}")


def figures(ratios, within, floors):
    """Mean error, what 90% are below, the part below 10%, that within the range, floor / measured."""
    errors = np.abs(1 / ratios - 1)
    below = float(np.mean(errors < MOST_OF_90))
    return mean_error(ratios), float(np.quantile(errors, 0.9)), below, float(np.mean(within)), floors.mean()


def show(name, known):
    """Print a line of figures."""
    error, of_90, below, within, floor = known
    print(
        f"{name:14s} error {error:.1%}, 90% below {of_90:.1%}, {below:.0%} below 10%, "
        f"{within:.0%} within the range, floor / measured {floor:.2f}"
    )


def evaluated(devices=MEASURED):
    """(ratios, within, floor over measured) of each device."""
    known = {}
    for device in devices:
        steps, ratios = steps_of(device), fitted(device).ratios
        known[device] = ratios, inside(steps, ratios), steps.floor / steps.measured
    return known


def of_all(known):
    """The same of all devices together."""
    return tuple(np.concatenate(parts) for parts in zip(*known.values(), strict=True))


def main():
    """Print the figures of each device and of all. Exits 1 where what is demanded is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", action="store_true", help="a line for each run")
    asked = parser.parse_args()
    known = evaluated()
    for device, (ratios, within, floors) in known.items():
        show(device, figures(ratios, within, floors))
        if asked.rows:
            show_rows(steps_of(device), ratios, within)
    every = of_all(known)
    show(f"all {len(every[0])} runs", figures(*every))
    error, of_90, _, within, _ = figures(*every)
    if not (error <= MOST_ERROR and of_90 < MOST_OF_90 and INSIDE[0] <= within <= INSIDE[1]):
        raise SystemExit("missed: at most 5%, 90% below 10%, 75 to 90% within the range")


if __name__ == "__main__":
    main()
