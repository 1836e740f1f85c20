"""Fit constants of speed on all measured tables, and write them with the page of errors.

    python benchmarks/refit.py                       # fits all but kernels, prints errors; half an hour
    python benchmarks/refit.py --write               # and writes engines/, devices/ and docs/errors.md
    python benchmarks/refit.py --only runs --write   # constants of whole runs alone: llama.cpp, MLX

The parts, in order: devices (`fit_efficiency.py`), servers (`fit_serving.py`), runs, kinds, errors. To add a
measurement, add a row to a table of measured/speed, such as one that `archcli bench` prints. Constants of
engines' kernels need tables that are not here: `fit_engines.py`.
"""

import argparse

import fit_efficiency
import fit_serving
from engine_fits import errors, live, whole_runs
from engine_fits.asked import rows


def devices(*, write):
    """Constants of devices."""
    fit_efficiency.renew(write=write)


def servers(*, write):
    """What live servers take beside their kernels."""
    fit_serving.renew(write=write)


def runs(*, write):
    """Constants of engines of whole runs."""
    every = list(rows())
    for engine in whole_runs.ENGINES:
        whole_runs.renew(engine, every, write=write)


def kinds(*, write):
    """Factors and ranges of live servers by kind."""
    live.renew([*rows(), *live.of_servers(fit_serving.rows(fit_serving.TABLE))], write=write)


def page(*, write):
    """The page of errors by kind."""
    errors.renew([*rows(), *live.of_servers(fit_serving.rows(fit_serving.TABLE))], write=write)


PARTS = {"devices": devices, "servers": servers, "runs": runs, "kinds": kinds, "errors": page}


def main():
    """Fit the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="write the constants and the page")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="the parts")
    asked = parser.parse_args()
    for part in asked.only:
        PARTS[part](write=asked.write)


if __name__ == "__main__":
    main()
