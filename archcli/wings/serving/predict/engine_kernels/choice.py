"""Choose a call's constants: an engine's kernel, on the device or on one of its generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

PROCESSORS: Mapping[str, int] = {
    "a100-sxm-40gb": 108,
    "a100-sxm-80gb": 108,
    "a100-pcie-40gb": 108,
    "a100-pcie-80gb": 108,
    "h100-sxm": 132,
    "h100-pcie": 114,
    "h100-nvl": 132,
    "h200-sxm": 132,
    "gh200-96gb": 132,
    "b200-sxm": 148,
    "b300-sxm": 148,
    "gb200": 152,
    "gb300": 152,
    "a10": 72,
    "a10g": 80,
    "a40": 84,
    "rtx-3060": 28,
    "rtx-3070": 46,
    "rtx-3080": 68,
    "rtx-3080-12gb": 70,
    "rtx-3080-ti": 80,
    "rtx-3090": 82,
    "rtx-3090-ti": 84,
    "rtx-a2000": 26,
    "rtx-a4000": 48,
    "rtx-a4500": 56,
    "rtx-a5000": 64,
    "rtx-a5500": 80,
    "rtx-a6000": 84,
    "l4": 58,
    "l40s": 142,
    "rtx-4090": 128,
    "rtx-5090": 170,
    "rtx-pro-6000-server": 188,
}
"""Multiprocessors of a device: of NVIDIA's architecture papers, from memory; none was read off a driver."""

GENERATIONS: Mapping[str, str] = {
    "sm_80": "Ampere",
    "sm_86": "Ampere",
    "sm_89": "Ada",
    "sm_90": "Hopper",
    "sm_100": "Blackwell",
    "sm_103": "Blackwell",
    "sm_120": "Blackwell of workstations",
}
"""Architectures whose kernels are the same code: sm_100 and sm_120 share a name, and no kernel."""

FOREIGN: Mapping[str, str] = {"gfx90a": "sm_80", "gfx942": "sm_90", "gfx950": "sm_100"}
"""Accelerators of other makers with the constants of NVIDIA's of their year: nobody publishes times of their
kernels. What was measured of their servers has kinds, and so factors, of its own.
"""
NumberedEntry = Mapping[str, Any]
"""The constants of a kernel, with its name, dtypes, rows and errors."""


class NamedDevice(NamedTuple):
    """A device as its datasheet has it: name, architecture such as sm_90, GB/s to memory."""

    name: str
    architecture: str
    bandwidth: float


def generation(architecture: str) -> str:
    """The name of a generation, that of the architecture where it has no other."""
    alike = FOREIGN.get(architecture, architecture)
    return GENERATIONS.get(alike, alike)


def lender(device: NamedDevice, measured: Iterable[NamedDevice]) -> NamedDevice | None:
    """The measured device whose constants a device gets: itself, or the nearest of its generation.

    The nearest has the same architecture if any has, then the bandwidth that is most alike. None where no
    device of its generation was measured: kernels of another generation are other code.
    """

    def distance(candidate: NamedDevice) -> tuple[bool, bool, float]:
        ratio = abs(log(candidate.bandwidth / device.bandwidth))
        return candidate.name != device.name, candidate.architecture != device.architecture, ratio

    wanted = generation(device.architecture)
    alike = [candidate for candidate in measured if generation(candidate.architecture) == wanted]
    return min(alike, key=distance, default=None)


def range_of(entry: NumberedEntry, *, borrowed: bool) -> tuple[float, float]:
    """Measured over expected at its 10% and 90% quantile; wider with constants of another device."""
    low, high = entry["low"], entry["high"]
    return (low / BORROWED, high * BORROWED) if borrowed else (low, high)


BORROWED = 1.15
"""The factor that widens a range, to either side, with the constants of another device of the generation.

Among H100 and H200, and among B200, B300, GB200 and GB300, quantiles of measured over expected move by at
most this, whatever the operation (`benchmarks/fit_engines.py --lent`).
"""


def entry_for(
    entries: Sequence[NumberedEntry], wanted: Mapping[str, Any], width: str = ""
) -> NumberedEntry | None:
    """The entry most like a kernel, of several the one with the most measured rows; None without entries.

    `wanted` are kernel, dtype and cache, as far as they are known. `width` is a head width, followed by a w
    with a window: 128w. An entry of other dtypes is chosen only if none is nearer.
    """

    def likeness(entry: NumberedEntry) -> tuple[Any, ...]:
        same = [entry.get(key) == wanted[key] for key in ("cache", "dtype", "kernel") if key in wanted]
        return (*same, width in entry.get("widths", ()), entry["rows"])

    return max(entries, key=likeness, default=None)
