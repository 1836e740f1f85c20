"""Terms shared by models of engines' kernels: rates of a device, bytes moved, two limits joined.

A kernel's file has a record of its constants, a record of a call, and a function of both:

    decode_seconds(DecodeConstants(call_us=9.1, memory=0.83), HeadsCall(32, 8, 128, 0, 64, 4096, 2), device)

Sizes of a call are numbers, or numpy arrays where many calls are timed at once. Times are in seconds, sizes
in bytes, constants in microseconds where their name ends in _us; others are fractions, factors or counts. A
kernel states at most eight constants; the others keep the neutral values of the record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MICRO = 1e-6
COMMON = 128
"""The head width for which kernels are optimized."""
Size = Any
"""A number, or a numpy array of numbers."""


class KernelDevice(NamedTuple):
    """A device as a kernel sees it.

    peak: FLOP/s in the dtype of the kernel's products, dense.
    bandwidth: bytes/s to memory.
    cache: bytes of the last cache, L2.
    processors: multiprocessors (SMs), each of which runs one block of a kernel at a time.
    link: bytes/s to the neighbours, one way; 0 without a link.
    """

    peak: float
    bandwidth: float
    cache: float
    processors: float
    link: float = 0.0


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two, element by element."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return min(a, b)
    import numpy as np

    return np.minimum(a, b)


def larger(a: Size, b: Size) -> Size:
    """The larger of two, element by element."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return max(a, b)
    import numpy as np

    return np.maximum(a, b)


def joined(first: Size, second: Size, power: float) -> Size:
    """(first^power + second^power)^(1/power): near the larger term, above both if they are equal."""
    return (first**power + second**power) ** (1 / power)


def moved(size: Size, cached: float, fraction: float, device: KernelDevice) -> Size:
    """Seconds to move bytes at a fraction of the bandwidth; those that fit L2 are `cached` times as fast."""
    inside = smaller(size, device.cache)
    return (inside / cached + (size - inside)) / (device.bandwidth * fraction)


def width_factor(width: Size, narrow: float, wide: float) -> Size:
    """The cost of a multiplication by heads of this width, relative to heads of 128.

    narrow: the factor below 128, where exponentials and addresses weigh as much as at 128. wide: the factor
    of each doubling beyond 128, where registers run out.
    """
    from math import log2

    return (width < COMMON) * narrow + (width >= COMMON) * (width / COMMON) ** log2(wide)
