"""Constants of collectives within a machine, from vidur's all-reduces above 1 MB; a fifth is held out."""

from functools import cache

import numpy as np

from archcli.load.devices.datasheet import load_datasheet
from archcli.measure.predict.constants import RingConstants
from efficiency.held_out import fit, folds, rounded
from efficiency.tables import ALL_REDUCES, DEVICES, column, table

START = (np.log(40e-6), np.log(0.5))
LEAST_BYTES = 1e6


class AllReduces:
    """Measured all-reduces among n: seconds that the bytes each sends take on paper, and those measured."""

    def __init__(self, device, n):
        rows = [
            row
            for row in table(ALL_REDUCES)
            if DEVICES.get(row["node"]) == device
            and row["workers"] == row["devices_per_node"] == str(n)
            and float(row["bytes"]) > LEAST_BYTES
        ]
        rate = load_datasheet(device).figures["link_gb_s"].value * 1e9
        self.floor = 2 * (n - 1) / n * column(rows, "bytes") / rate
        self.measured = column(rows, "all_reduce_median_ms") / 1e3
        self.fold = folds(list(self.floor))


def constants(numbers, n):
    """Constants of unbounded numbers: both above 0."""
    latency, link = np.exp(numbers)
    return RingConstants(n, latency, link, None)


@cache
def fitted(device, n):
    """The fit of one table."""
    reduces = AllReduces(device, n)

    def seconds(numbers, rows):
        of = constants(numbers, n)
        return of.latency + reduces.floor[rows] / of.link

    return fit(seconds, reduces.measured, reduces.fold, START)


def entries(date, wanted):
    """(device, group size, entry of the YAML, fit) of each table."""
    groups = {
        (DEVICES[row["node"]], int(row["workers"]))
        for row in table(ALL_REDUCES)
        if row["node"] in DEVICES and row["workers"] == row["devices_per_node"]
    }
    for device, n in sorted(groups):
        if wanted(device):
            of = fitted(device, n)
            stated = constants(of.numbers, n)
            entry = {
                "latency_us": rounded(stated.latency * 1e6),
                "link": rounded(stated.link),
            }
            yield device, str(n), {**entry, **of.origin(ALL_REDUCES, date)}, of
