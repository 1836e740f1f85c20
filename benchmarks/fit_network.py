"""Constants of all-reduces among machines, from published runs of nccl-tests; `--write` writes them.

    python benchmarks/fit_network.py [--write]

Each cluster of benchmarks/measured/network_allreduce.csv is held out in turn: the range and the error are
those of clusters that the constants were not fitted to.
"""

import argparse
import datetime as dt

import numpy as np
from efficiency.held_out import fit, rounded, spread
from efficiency.tables import table

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.engines import speeds_file
from archcli.wings.serving.predict.communication.collective import (
    Collective,
    Fabric,
    GroupOfRanks,
    NetworkConstants,
)

ALL_REDUCES = "network_allreduce.csv"
START = np.log([3.0, 15.0, 1.0])
TEXT = """name: network
title: Networks between machines
source: "runs of nccl-tests on two to eight machines, benchmarks/measured/{table}, each with its source"
speeds: # made by benchmarks/fit_network.py --write
  all_reduce:
    constants: {{near_us: {near_us}, hop_us: {hop_us}, mixed: {mixed}, low: {low}, high: {high}}}
    error: {error}
    rows: {rows}
    table: {table}
    fitted: {date}
"""


def exchange(row):
    """The fabric of a row, and its all-reduce: a rank sends 2 (n - 1) / n of the message around a ring."""
    near, ranks = int(row["per_node"]), int(row["per_node"]) * int(row["nodes"])
    link = load_datasheet(row["device"]).figures["link_gb_s"].value
    fabric = Fabric(row["device"], link, float(row["network_gb_s"]), near)
    sent = 2 * (ranks - 1) / ranks * float(row["bytes"])
    return fabric, Collective("all_reduce", "tensor", GroupOfRanks(ranks), sent, 1)


def seconds(constants, row):
    """Seconds of a row by constants."""
    fabric, reduced = exchange(row)
    pace = constants.pace(reduced.group, fabric.devices_per_node)
    return pace.seconds(1, reduced.bytes / fabric.route(reduced).bytes_per_s)


def fitted(rows):
    """The fit of all rows, with each cluster held out."""
    clusters = [f"{row['device']} {row['source']}" for row in rows]
    fold = np.array([sorted(set(clusters)).index(cluster) for cluster in clusters])

    def of(numbers, chosen):
        constants = NetworkConstants(*np.exp(numbers), 1.0, 1.0)
        return np.array([seconds(constants, rows[at]) for at in chosen])

    measured = np.array([float(row["time_us"]) * 1e-6 for row in rows])
    return fit(of, measured, fold, START)


def text(date):
    """The YAML of the constants."""
    rows = table(ALL_REDUCES)
    found = fitted(rows)
    names = ("near_us", "hop_us", "mixed")
    constants = {name: rounded(np.exp(number)) for name, number in zip(names, found.numbers, strict=True)}
    return TEXT.format(**constants, **spread(found.ratios), rows=len(rows), table=ALL_REDUCES, date=date)


def main():
    """Print the constants, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    made = text(dt.datetime.now().astimezone().date())
    if parser.parse_args().write:
        speeds_file("network").write_text(made, encoding="utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main()
