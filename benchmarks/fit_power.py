"""Parts of a device's power limit that it draws while it waits, reads and computes; prints, writes nothing.

    python benchmarks/fit_power.py [--rows]

Each row of benchmarks/measured/watts.csv is predicted, and its seconds are told apart by what bounds them.
Each device is held out in turn: parts and range are those of the others. Devices count alike, however
many rows they have. Rows at the wall, of which nothing is fitted, are peaks of llama-bench on a Raspberry
Pi with a card: taken as those of a prompt, less HOST_W of the Pi and what a power supply loses.
"""

import argparse
import csv
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from archcli.api.asking.subject import given
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict import power

TABLE = Path(__file__).parent / "measured" / "watts.csv"
HELD = (0.1, 0.9)
KINDS = ("waiting", "memory", "compute")
HOST_W, SUPPLIED = 10, 0.9


class Row(NamedTuple):
    """A measurement: device, meter, the part of its limit, and parts of the time by `KINDS`.

    joules: measured joules of a token over expected ones, and whether they lie in the range; None without.
    """

    device: str
    meter: str
    what: str
    part: float
    times: tuple[float, ...]
    joules: tuple[float, bool] | None = None


def rows() -> list[Row]:
    """All measurements, each beside its prediction."""
    with TABLE.open(encoding="utf-8") as file:
        return [_row(record) for record in csv.DictReader(file)]


def _row(record: dict[str, str]) -> Row:
    count, device = int(record["count"]), record["device"]
    limit = count * load_datasheet(device).figures["tdp_w"].value
    times, joules = (
        ((1.0, 0.0, 0.0), None) if record["phase"] == "idle" else _predicted(record, limit / count)
    )
    what = " ".join(record[name] for name in ("count", "device", "model", "phase", "batch_size", "meter"))
    drawn = float(record["watts"])
    if record["meter"] == "wall":
        drawn = SUPPLIED * drawn - HOST_W
    return Row(device, record["meter"], what, drawn / limit, times, joules)


def _predicted(record: dict[str, str], limit: float) -> tuple[tuple[float, ...], tuple[float, bool] | None]:
    """The parts of the time as predicted, and how far joules of a token are from the measured ones."""
    options = PredictOptions(
        model=record["model"],
        device=f"{record['count']}x{record['device']}",
        phase=record["phase"],
        batch_size=int(record["batch_size"]),
        seq_len=int(record["prompt"]),
        new=int(record["new"]) or None,
        engine=record["engine"],
        dtype=record["dtype"] or None,
    )
    question = predict_question(given(options.model).model, options)
    prediction = question.answer().prediction
    asked = question.plan, question.settings
    times = tuple(power.time_parts(prediction, *asked))
    if record["meter"] == "wall" or not record["tokens_per_s"]:
        return times, None
    expected = power.joules_per_token(power.watts(prediction, limit, *asked), prediction.tokens_per_s)
    joules = float(record["watts"]) / float(record["tokens_per_s"])
    inside = expected["low"] <= joules <= expected["high"]
    return times, (joules / expected["expected"], inside)


def fitted(known: list[Row]) -> np.ndarray:
    """The parts of the limit that fit best, none below 0; each device has the same weight."""
    weights = np.sqrt(_weights(known))
    times, parts = np.array([row.times for row in known]), np.array([row.part for row in known])
    best = (np.inf, np.zeros(len(KINDS)))
    for chosen in product((False, True), repeat=len(KINDS)):
        columns = np.flatnonzero(chosen)
        found = np.zeros(len(KINDS))
        if columns.size:
            found[columns] = np.linalg.lstsq(
                times[:, columns] * weights[:, None], parts * weights, rcond=None
            )[0]
        error = float(((times @ found - parts) ** 2 * weights**2).sum())
        if (found >= 0).all() and error < best[0]:
            best = (error, found)
    return best[1]


def _weights(known: list[Row]) -> np.ndarray:
    devices = [row.device for row in known]
    return np.array([1 / devices.count(device) for device in devices])


def quantile(values: np.ndarray, weights: np.ndarray, at: float) -> float:
    """The weighted quantile of values."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]) / weights.sum(), at)])


def ratios(known: list[Row], shares: np.ndarray) -> np.ndarray:
    """Measured over expected."""
    return np.array([row.part / min(1.0, float(np.dot(row.times, shares))) for row in known])


def held_out(known: list[Row]) -> tuple[list[Row], np.ndarray]:
    """The rows device by device, and their ratios with the parts of the other devices."""
    devices = sorted({row.device for row in known})
    tested = [[row for row in known if row.device == device] for device in devices]
    values = [ratios(test, fitted([row for row in known if row.device != test[0].device])) for test in tested]
    return [row for test in tested for row in test], np.concatenate(values)


def main() -> None:
    """Print parts, range, and the rows inside of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", action="store_true", help="print each row")
    every = rows()
    board = [row for row in every if row.meter == "nvml"]
    running = [row for row in board if row.times[0] < 1]
    print("parts of the limit:", dict(zip(KINDS, fitted(board).round(3), strict=True)))
    tested, values = held_out(board)
    runs = np.array([row.times[0] < 1 for row in tested])
    tested, values = [row for row in tested if row.times[0] < 1], values[runs]
    ends = [quantile(values, _weights(tested), at) for at in HELD]
    print(f"range of held-out rows, devices alike: {ends[0]:.2f} to {ends[1]:.2f}")
    inside = 0.0
    for device in sorted({row.device for row in tested}):
        own = np.array([row.device == device for row in tested])
        others = [row for row in tested if row.device != device]
        low, high = (quantile(values[~own], _weights(others), at) for at in HELD)
        within = int(((low <= values[own]) & (values[own] <= high)).sum())
        inside += within
        print(
            f"  {device}: {within} of {own.sum()} rows inside {low:.2f} to {high:.2f}, a range of the others"
        )
    print(f"held out, range of the others: {inside:.0f} of {len(running)} rows inside")
    shares = np.array([power.WAITING, power.MEMORY, power.COMPUTE])
    for meter in ("nvml", "wall"):
        known = [row for row in every if row.meter == meter and row.times[0] < 1]
        values = ratios(known, shares)
        within = int(((values >= power.LOW) & (values <= power.HIGH)).sum())
        error = float(np.exp(np.abs(np.log(values)).mean()) - 1)
        print(
            f"{meter}, with the constants of power.py: {within} of {len(known)} rows, mean error {error:.0%}"
        )
    joules = [row.joules for row in every if row.joules]
    ratio = float(np.median([ratio for ratio, _ in joules]))
    print(
        f"joules of a token: {sum(inside for _, inside in joules)} of {len(joules)} rows, median {ratio:.2f}"
    )
    if parser.parse_args().rows:
        for row, ratio in zip(every, ratios(every, shares), strict=True):
            print(f"{row.what}: {row.part:.2f} of the limit, {ratio:.2f} of the expected")


if __name__ == "__main__":
    main()
