"""Constants of devices that nobody has measured so far: those of a device that is alike.

Where the chip is the same, they are taken with their range. Where it is another, the range is that of A100's
constants on H100's measurements and of H100's on A100's.
"""

import numpy as np

from efficiency import links, movements
from efficiency.held_out import Fit, rounded
from efficiency.tables import rates

A100, A100_40, H100 = "a100-sxm-80gb", "a100-sxm-40gb", "h100-sxm"
SAME_CHIP = {
    A100_40: (A100, ("matrix_products", "memory_bound", "communication")),
    "h200-sxm": (H100, ("memory_bound", "attention", "communication", "training")),
}
OTHER_CHIP = {
    "b200-sxm": (H100, ("memory_bound", "attention", "communication", "training")),
    "gb200": (H100, ("memory_bound", "attention", "communication", "training")),
    "l40s": (A100, ("memory_bound", "attention")),
}
"""Devices, whose constants they have, and of which groups."""


def lent(constants):
    """(device, group, name, entry) of all that is taken over from `constants`, by device, group and name."""
    for device, (lender, groups) in {**SAME_CHIP, **OTHER_CHIP}.items():
        for group in groups:
            for name, entry in constants[lender].get(group, {}).items():
                across = CROSSED[group](name) if device in OTHER_CHIP and group in CROSSED else {}
                yield device, group, name, {**entry, **across, "fitted_on": lender}


def _crossed(ratios):
    """Error and range of both directions: the larger error, and the outer ends."""
    parts = [Fit(None, one).origin("", "") for one in ratios]
    error = rounded(max(part["error"] for part in parts), 3)
    low, high = min(part["low"] for part in parts), max(part["high"] for part in parts)
    return {"error": error, "low": low, "high": high}


def _movements(kind):
    """Of kernels that memory bounds."""
    measured = {device: movements.Movements(device, kind) for device in (A100, H100)}
    ratios = []
    for device, other in ((A100, H100), (H100, A100)):
        numbers = movements.fitted(measured[other], rates(other)).numbers
        of, every = measured[device], np.arange(len(measured[device].measured))
        ratios.append(of.measured / movements.seconds_of(of, rates(device), numbers, every))
    return _crossed(ratios)


def _links(size):
    """Of collectives in groups of a size."""
    n = int(size)
    measured = {device: links.AllReduces(device, n) for device in (A100, H100)}
    ratios = []
    for device, other in ((A100, H100), (H100, A100)):
        of = links.constants(links.fitted(measured[other], n).numbers, n)
        ratios.append(measured[device].measured / (of.latency + measured[device].floor / of.link))
    return _crossed(ratios)


CROSSED = {"memory_bound": _movements, "communication": _links}
