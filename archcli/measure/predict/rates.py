"""Rates: the peaks of a device, in FLOP/s and bytes a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from archcli.errors import ArchError

GIGA, TERA = 1e9, 1e12
PEAKS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bf16_tflops",),
    "fp16": ("fp16_tflops", "bf16_tflops"),
    "fp8": ("fp8_tflops",),
    "fp4": ("fp4_tflops",),
    "int8": ("int8_tops",),
    "tf32": ("tf32_tflops",),
    "fp32": ("fp32_tflops",),
}
"""The figures of a device that hold the peak of a dtype; the first that it states counts."""
WIDTHS = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}
"""Bytes of an element, by dtype."""


class LastCache(NamedTuple):
    """The last cache of a device: bytes, and bytes a second."""

    size: float
    bandwidth: float


class Rates(NamedTuple):
    """Peaks of a device: FLOP/s by dtype, bytes a second to its memory, and its cache where it is known.

    `measured_by` is the command that measures a dtype's on this machine, empty for a datasheet's.
    """

    name: str
    peaks: Mapping[str, float]
    bandwidth: float
    cache: LastCache | None = None
    measured_by: str = ""

    @classmethod
    def of(cls, name: str, figures: Mapping[str, float]) -> Rates:
        """The rates by the keys of a datasheet, such as bf16_tflops. Raises ArchError without a bandwidth."""
        if "bandwidth_gb_s" not in figures:
            hint = "state bandwidth_gb_s in a YAML of your own"
            raise ArchError(f"device {name} states no bandwidth, so that nothing can be timed on it", hint)
        peaks = {}
        for dtype, keys in PEAKS.items():
            known = [figures[key] for key in keys if key in figures]
            if known:
                peaks[dtype] = known[0] * TERA
        return cls(name, peaks, figures["bandwidth_gb_s"] * GIGA)

    def peak(self, dtype: str) -> float:
        """FLOP/s of matrix products in a dtype. Raises ArchError where the device states none."""
        if dtype in self.peaks:
            return self.peaks[dtype]
        hint = f"it has peaks of {', '.join(self.peaks) or 'no dtype'}"
        if self.measured_by:
            command = self.measured_by.format(dtype=dtype)
            has = " and ".join(f"--dtype {known}" for known in self.peaks)
            raise ArchError(f"{self.name}: no peak of {dtype} is measured", f"{has} is; {command}")
        if dtype in PEAKS:
            hint += f"; {PEAKS[dtype][0]} may be stated in a YAML of your own"
        raise ArchError(f"device {self.name} states no peak of {dtype}", hint)

    def memory(self, moved: float) -> float:
        """Bytes a second at which so many bytes are read and written."""
        return self.cache.bandwidth if self.is_cached(moved) and self.cache else self.bandwidth

    def is_cached(self, moved: float) -> bool:
        """Whether so many bytes stay within the cache."""
        return self.cache is not None and moved <= self.cache.size
