"""Fit the constants of devices on published measurements, and tell how well they predict what was held out.

    python benchmarks/fit_efficiency.py             # prints a line for each table
    python benchmarks/fit_efficiency.py --write     # and writes `efficiency:` into devices/*.yaml
    python benchmarks/fit_efficiency.py --write --only a40      # of these devices alone

What is fitted is said in archcli/wings/serving/predict/constants.py, where the figures are from in
benchmarks/measured/README.md. Matrix products are held out by (n, k), other kernels by model, all-reduces by
size, training steps by model size; 80% of the rows held out lie between low and high times what is expected.
The range of training steps is that of several frameworks, see efficiency/frameworks.py.
Some 20 seconds.
"""

import argparse
import datetime as dt
from collections import defaultdict

from efficiency import borrowed, frameworks, links, movements, products, steps
from efficiency.held_out import spread
from efficiency.tables import rates
from efficiency.write import renewed

from archcli.wings.serving.devices.datasheet import devices, folder
from archcli.wings.serving.devices.efficiency import GROUPS

FITS = {
    "matrix_products": products.entries,
    "memory_bound": movements.entries,
    "attention": steps.attention_entries,
    "communication": links.entries,
    "training": frameworks.entries,
}
LIMITS = {
    **{
        ("matrix_products", device, "bf16"): 0.12
        for device in ("a100-sxm-80gb", "a40", "h100-sxm", "h200-sxm")
    },
    **{("matrix_products", device, "bf16"): 0.15 for device in ("b200-sxm", "gb200")},
    **{("training", device, "bf16"): 0.05 for device in steps.MEASURED},
    **{("communication", device, n): 0.1 for device in ("a100-sxm-80gb", "h100-sxm") for n in "248"},
}
"""The mean error of held-out rows that is demanded."""


def fitted(date, only=None, groups=tuple(FITS)):
    """Constants fitted on the tables, by device, group and name; of `only` these devices."""
    constants = defaultdict(lambda: defaultdict(dict))
    wanted = set(devices() if only is None else only)
    for group in groups:
        for device, name, entry, _ in FITS[group](date, wanted.__contains__):
            constants[device][group][name] = entry
    return constants


def with_borrowed(constants):
    """The same with the constants of devices that are alike, groups in their order."""
    for device, group, name, entry in list(borrowed.lent(constants)):
        constants[device][group][name] = entry
    for groups in constants.values():
        for entry in groups.get("attention", {}).values():
            entry.update(borrowed.attention_alone())
    return {
        device: {group: groups[group] for group in GROUPS if group in groups}
        for device, groups in constants.items()
    }


def missed(constants):
    """The limits that are not kept."""
    return [key for key, most in LIMITS.items() if constants[key[1]][key[0]][key[2]]["error"] > most]


def show(constants):
    """Print a line for each table."""
    print(f"{'device':20s}{'constants':18s}{'of':18s}{'rows':>6s}{'error':>8s}{'limit':>7s}  80% within")
    for device, groups in constants.items():
        for group, entries in groups.items():
            for name, entry in entries.items():
                limit = LIMITS.get((group, device, name))
                within = f"{entry['low']:.2f} to {entry['high']:.2f}"
                of = f"  constants of {entry['fitted_on']}" if "fitted_on" in entry else ""
                demanded = f"{limit:.0%}" if limit else ""
                line = f"{device:20s}{group:18s}{name:18s}{entry['rows']:6d}{entry['error']:8.1%}"
                print(f"{line}{demanded:>7s}  {within}{of}")


def show_plain():
    """Print what the depth of a product's sums is worth: errors held out without it."""
    for device, dtype, measured in products.measured_products():
        if dtype == "bf16":
            errors = [products.fitted(measured, rates(device), with_depth=on).error for on in (True, False)]
            print(f"{device:20s}matrix products {errors[0]:.1%}; without depth_ns {errors[1]:.1%}")


def show_left_out():
    """Print how far all-reduces are from the constants of links that were not fitted on them."""
    for what, ratios in (("below 1 MB", links.small_ratios()), ("between machines", links.ratios_between())):
        told = spread(ratios)
        within = f"80% of measured over expected {told['low']:.2f} to {told['high']:.2f}"
        print(f"all-reduces {what}, {len(ratios)} rows: error {told['error']:.1%}, {within}")


def renew(*, write, only=(), date=None):
    """Fit, print, and write where that is asked for. Exits 1 where a limit is missed."""
    constants = with_borrowed(fitted(date or dt.datetime.now(tz=dt.UTC).date().isoformat()))
    show(constants)
    show_plain()
    show_left_out()
    if write:
        for device in only or constants:
            path, groups = folder() / f"{device}.yaml", constants[device]
            path.write_text(renewed(path.read_text(encoding="utf-8"), groups), encoding="utf-8")
    if missed(constants):
        raise SystemExit(f"missed: {missed(constants)}")


def main():
    """Read the command line, and fit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="write the constants into devices/*.yaml")
    parser.add_argument("--date", help="the day to state")
    parser.add_argument("--only", nargs="+", metavar="DEVICE", help="the devices to write")
    asked = parser.parse_args()
    renew(write=asked.write, only=asked.only or (), date=asked.date)


if __name__ == "__main__":
    main()
