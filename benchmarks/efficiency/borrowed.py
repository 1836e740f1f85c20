"""Constants of devices that nobody has measured so far: those of a device that is alike.

Their ranges are those of crossing two devices that were measured, each with the constants of the other: where
the chip is the same, steps on A100s of 80 and of 40 GB; where it is another, A100 and H100.
"""

import numpy as np

from efficiency import links, movements, steps
from efficiency.held_out import spread
from efficiency.tables import rates

A100, A100_40, H100 = "a100-sxm-80gb", "a100-sxm-40gb", "h100-sxm"
B200, GB200 = "b200-sxm", "gb200"
A40, RTX_PRO = "a40", "rtx-pro-6000-server"
SAME_CHIP = (
    (A100_40, A100, ("matrix_products", "memory_bound", "communication")),
    ("h200-sxm", H100, ("memory_bound", "attention", "communication", "training")),
    (GB200, B200, ("training",)),
)
OTHER_CHIP = (
    (B200, H100, ("memory_bound", "attention", "communication")),
    (GB200, H100, ("memory_bound", "attention", "communication")),
    # with GDDR, too, of which kernels that memory bounds reach more than of HBM
    ("l40s", A40, ("memory_bound",)),
    (RTX_PRO, A40, ("memory_bound",)),
    *((device, A100, ("attention",)) for device in (A40, "l40s", RTX_PRO)),
)
"""Devices, whose constants they have, and of which groups."""


def lent(constants):
    """(device, group, name, entry) of all that is taken over from `constants`, by device, group and name."""
    for pair, borrowers in (((A100, A100_40), SAME_CHIP), ((A100, H100), OTHER_CHIP)):
        for device, lender, groups in borrowers:
            for group in groups:
                for name, entry in constants[lender].get(group, {}).items():
                    ratios = CROSSED[group](name, pair) if group in CROSSED else []
                    across = _outer(ratios) if ratios else {}
                    if group == "training":
                        across = _widest(across, entry)
                    yield device, group, name, {**entry, **across, "fitted_on": lender}


def attention_alone():
    """Error and range of attention outside of training steps, which no table measures.

    Its constant is that of steps of long sequences, forward and backward by the kernels of their day. So the
    range is that of chips crossed, for devices whose steps were measured too.
    """
    return _outer(
        _crossed_steps(device, other)[steps.is_long(steps.steps_of(device))]
        for device, other in _both_ways((A100, H100))
    )


def _outer(ratios):
    """Error and range of both directions: the larger error, and the outer ends."""
    return _widest(*map(spread, ratios))


def _widest(*ranges):
    """The larger error and the outer ends of ranges: of chips crossed, and of frameworks."""
    low, high = min(one["low"] for one in ranges), max(one["high"] for one in ranges)
    return {"error": max(one["error"] for one in ranges), "low": low, "high": high}


def _both_ways(pair):
    return (pair, pair[::-1])


def _movements(kind, pair):
    """Kernels that memory bounds, measured on A100 and H100 alone."""
    ratios = []
    for device, other in _both_ways(pair) if A100_40 not in pair else ():
        of, numbers = movements.Movements(device, kind), movements.fitted(other, kind).numbers
        every = np.arange(len(of.measured))
        ratios.append(of.measured / movements.seconds_of(of, rates(device), numbers, every))
    return ratios


def _links(size, pair):
    """Collectives in groups of a size, measured on A100 and H100 alone."""
    ratios, n = [], int(size)
    for device, other in _both_ways(pair) if A100_40 not in pair else ():
        of, reduces = links.constants(links.fitted(other, n).numbers, n), links.AllReduces(device, n)
        ratios.append(reduces.measured / (of.latency + reduces.floor / of.link))
    return ratios


def _steps(_, pair):
    """Training steps, all of one dtype."""
    return [_crossed_steps(device, other) for device, other in _both_ways(pair)]


def _crossed_steps(device, other):
    of = steps.steps_of(device)
    return of.measured / of.expected(steps.fitted(other).numbers)


CROSSED = {"memory_bound": _movements, "communication": _links, "training": _steps}
"""Measured over expected, both ways, by group; matrix products of equal chips were measured once."""
