"""Constants of collectives within a machine, from vidur's all-reduces above 1 MB; a fifth is held out.

Smaller ones take 7 to 66 us whatever their size. None is fitted, so that all are held out: their range is
that of all groups together. Those between machines are not fitted either: they tell of one cluster's network.
"""

from functools import cache

import numpy as np

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict.communication.collective import Collective, Fabric, GroupOfRanks
from archcli.wings.serving.predict.constants import SMALL_BYTES, RingConstants
from efficiency.held_out import fit, folds, rounded, spread
from efficiency.tables import ALL_REDUCES, DEVICES, column, table

START = (np.log(40e-6), np.log(0.5))


class AllReduces:
    """Measured all-reduces among n: seconds that the bytes each sends take on paper, and those measured.

    `near` of them lie in one machine, all where nothing is said; `small` are those below 1 MB.
    """

    def __init__(self, device, n, *, near=None, small=False):
        near = near or n
        rows = [
            row
            for row in table(ALL_REDUCES)
            if DEVICES.get(row["node"]) == device
            and (row["workers"], row["devices_per_node"]) == (str(n), str(near))
            and (float(row["bytes"]) <= SMALL_BYTES) is small
        ]
        figures = load_datasheet(device).figures
        links = Fabric(device, figures["link_gb_s"].value, figures["network_gb_s"].value)
        group = GroupOfRanks(n, links.devices_per_node // near)
        rate = links.route(Collective("all_reduce", "gradients", group, 0, 1)).bytes_per_s
        self.floor = 2 * (n - 1) / n * column(rows, "bytes") / rate
        self.measured = column(rows, "all_reduce_median_ms") / 1e3
        self.fold = folds(list(self.floor))


def constants(numbers, n):
    """Constants of unbounded numbers: both above 0."""
    latency, link = np.exp(numbers)
    return RingConstants(n, latency, link, None, None, None)


@cache
def fitted(device, n):
    """The fit of one table."""
    reduces = AllReduces(device, n)

    def seconds(numbers, rows):
        of = constants(numbers, n)
        return of.latency + reduces.floor[rows] / of.link

    return fit(seconds, reduces.measured, reduces.fold, START)


def groups():
    """(device, number of ranks, those of them in one machine) of each table."""
    rows = [row for row in table(ALL_REDUCES) if row["node"] in DEVICES]
    return sorted({(DEVICES[row["node"]], int(row["workers"]), int(row["devices_per_node"])) for row in rows})


def groups_within():
    """(device, number of ranks) of each table of one machine."""
    return [(device, n) for device, n, near in groups() if near == n]


@cache
def small_ratios():
    """Measured over expected of all that are small, of all tables of one machine."""
    return np.concatenate([_ratios(device, n, n, small=True) for device, n in groups_within()])


def ratios_between():
    """Measured over expected of all that are large, between machines."""
    return np.concatenate([_ratios(*group, small=False) for group in groups() if group[1] != group[2]])


def _ratios(device, n, near, *, small):
    """Measured over expected by the constants of as many ranks in one machine, or of the most below."""
    fitted_n = max(size for of, size in groups_within() if of == device and size <= n)
    of = constants(fitted(device, fitted_n).numbers, fitted_n)
    reduces = AllReduces(device, n, near=near, small=small)
    return reduces.measured / (of.latency + reduces.floor / of.link)


def entries(date, wanted):
    """(device, group size, entry of the YAML, fit) of each table."""
    small = spread(small_ratios())
    for device, n in groups_within():
        if wanted(device):
            of = fitted(device, n)
            stated = constants(of.numbers, n)
            entry = {
                "latency_us": rounded(stated.latency * 1e6),
                "link": rounded(stated.link),
                "small_low": small["low"],
                "small_high": small["high"],
            }
            yield device, str(n), {**entry, **of.origin(ALL_REDUCES, date)}, of
