"""Constants of a device: peaks, the share of them that kernels reach, the framework's part.

Four groups, fitted on published measurements; `benchmarks/fit_efficiency.py` writes them into `devices/`.

- matrix products, by dtype: launch + depth k + ((F / (P compute))^p + (bytes / (B memory))^p)^(1/p) seconds,
  F FLOPs, P the peak, B the bandwidth, k the length of the sums, p the exponent. depth k is the loop over k:
  its steps follow one another, however many processors there are.
- memory-bound kernels, by kind: launch + bytes / (B memory) seconds.
- fused attention, by dtype: as a matrix product, with a compute fraction of its own.
- communication, by the size of a group: latency + bytes that a device sends / (L link), L the link's rate.
  Collectives below 1 MB are not fitted, and have a range of their own.

A training step has four more, of whole steps: its kernels' speed beside that of kernels timed alone.

The framework's part of a pass: what Python and the allocator do between one operation and the next. It is
host time: once for each call of an operation, and more where the call writes much, since the memory of
large tensors is taken from the operating system and given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, NamedTuple, TypeVar

from archcli.errors import ArchError

Bound = Literal["compute", "memory", "cache", "launch", "link", "host", "ram", "bus"]


class Terms(NamedTuple):
    """Seconds of a kernel's launch, compute and memory, each as if alone; arrays where many are fitted."""

    launch: float
    compute: float
    memory: float

    def joined(self, exponent: float) -> float:
        """Seconds of all: launch + (compute^p + memory^p)^(1/p)."""
        both: float = (self.compute**exponent + self.memory**exponent) ** (1 / exponent)
        return self.launch + both

    def at_least(self, floor: Terms) -> Terms:
        """The longer of both, term by term."""
        launch, compute, memory = floor
        return Terms(max(self.launch, launch), max(self.compute, compute), max(self.memory, memory))

    def bound_by(self, *, is_cached: bool = False) -> Bound:
        """The longest term; with `is_cached` memory is the cache."""
        if self.launch > max(self.compute, self.memory):
            return "launch"
        if self.compute >= self.memory:
            return "compute"
        return "cache" if is_cached else "memory"


GIGA, TERA = 1e9, 1e12
PEAKS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("bf16_tflops",),
    # tensor cores compute both at one rate
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

    `measured_by`: the command that measures the peak of a dtype on this machine, empty for a datasheet's.
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
            hint = "state bandwidth_gb_s in a YAML of your own, or 1008GB/s in a line"
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
            hint += f"; {PEAKS[dtype][0]} may be stated in a YAML of your own, or 165TFLOP/s in a line"
        raise ArchError(f"device {self.name} states no peak of {dtype}", hint)

    def memory(self, moved: float) -> float:
        """Bytes a second at which so many bytes are read and written."""
        return self.cache.bandwidth if self.is_cached(moved) and self.cache else self.bandwidth

    def is_cached(self, moved: float) -> bool:
        """Whether so many bytes stay within the cache."""
        return self.cache is not None and moved <= self.cache.size


Entry = Mapping[str, Any]
MICRO, NANO = 1e-6, 1e-9
SMALL_BYTES = 1_000_000
"""Bytes of a collective below which it is left out of the fits."""


class Origin(NamedTuple):
    """Where constants are from: the table and its rows, the mean error held out, and the day of the fit.

    `low` and `high` are measured over expected at the 10% and 90% quantile of what was held out, so that 80%
    lie between. `fitted_on` is the device that was measured, empty for the device itself. `memory_low` is the
    low end of launches and memory, where it is known to be above that of compute.
    """

    error: float
    low: float
    high: float
    rows: int
    table: str
    fitted: str
    fitted_on: str = ""
    memory_low: float = 0.0

    @classmethod
    def of(cls, entry: Entry) -> Origin:
        """The origin that an entry of a device's YAML states."""
        return cls(**{key: entry[key] for key in cls._fields if key in entry})

    @property
    def source(self) -> str:
        """`cuBLAS on H100 of h100-sxm, 1,234 rows, fitted 2026-01-02`."""
        of = f" of {self.fitted_on}" if self.fitted_on else ""
        return f"{self.table}{of}, {self.rows:,} rows, fitted {self.fitted}"

    def lowest(self, terms: Terms, exponent: float) -> float:
        """The low end of the seconds of these terms."""
        of_memory = max(self.low, self.memory_low)
        launch, compute, memory = terms
        return Terms(of_memory * launch, self.low * compute, of_memory * memory).joined(exponent)


NOT_FITTED = Origin(0.0, 1.0, 1.0, 0, "", "")
"""The origin of constants while they are fitted."""


class KernelConstants(NamedTuple):
    """Constants of a kind of kernels: seconds of a launch, fractions of the peaks, and the exponent p.

    `depth`: seconds for each unit of k of a matrix product, 0 for other kernels. Memory-bound kernels have no
    compute term: their `compute` and `exponent` are 1, which change nothing.
    """

    launch: float
    depth: float
    compute: float
    memory: float
    exponent: float
    origin: Origin = NOT_FITTED

    @classmethod
    def of_memory(cls, launch: float, memory: float, origin: Origin = NOT_FITTED) -> KernelConstants:
        """Constants of memory-bound kernels."""
        return cls(launch, 0.0, 1.0, memory, 1.0, origin)

    def terms(self, floor: Terms, depth: float) -> Terms:
        """Expected terms from those of the bare roofline, with sums of `depth` products."""
        launch = self.launch + self.depth * depth
        return Terms(launch, floor.compute / self.compute, floor.memory / self.memory)


class RingConstants(NamedTuple):
    """Constants of collectives among `ranks`: the latency in seconds, and the fraction of the link's rate.

    They are fitted on large collectives. The times of those below `SMALL_BYTES` scatter whatever their size;
    `small_low` and `small_high` are their range.
    """

    ranks: int
    latency: float
    link: float
    small_low: float
    small_high: float
    origin: Origin

    def range(self, sent: float) -> tuple[float, float]:
        """Low and high, over the expected time, of a collective in which a rank sends so many bytes."""
        is_small = sent < SMALL_BYTES
        return (self.small_low, self.small_high) if is_small else (self.origin.low, self.origin.high)


class StepConstants(NamedTuple):
    """Constants of a training step.

    matrix_products: the speed of its products beside the same ones timed alone. memory_bound, attention,
    communication: fractions of the bandwidth, of the peak and of the link; the last is above 1 where
    communication hides behind computation. attention_best: of the fastest kernels of attention.
    """

    matrix_products: float
    memory_bound: float
    attention: float
    communication: float
    origin: Origin
    attention_best: float = 0.0

    @property
    def attention_low(self) -> float:
        """The low end of attention over its expected time: that of the fastest kernels, where it is lower."""
        newest = self.attention / max(self.attention, self.attention_best)
        return min(self.origin.low, newest)


FRAMEWORK, TRAINING_FRAMEWORK = "framework", "training_framework"
"""Names of the framework's constants, among those of memory-bound kernels."""
SUBSTITUTES: Mapping[str, tuple[str, ...]] = {"fp16": ("bf16",), "bf16": ("fp16",)}
"""Dtypes that the same units compute at the same rate: their constants hold for one another."""


T = TypeVar("T")


def _once(find: Callable[[Efficiency, str], T]) -> Callable[[Efficiency, str], T]:
    """A method whose result is kept: the same few constants are asked for by every kernel."""

    @wraps(find)
    def kept(efficiency: Efficiency, name: str) -> T:
        key = find.__name__, name
        if key not in efficiency.known:
            efficiency.known[key] = find(efficiency, name)
        result: T = efficiency.known[key]
        return result

    return kept


@dataclass(frozen=True)
class Efficiency:
    """The constants of a device, by group and name as in its YAML; empty if none are fitted."""

    groups: Mapping[str, Mapping[str, Entry]]
    known: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @_once
    def products(self, dtype: str) -> KernelConstants | None:
        """The constants of matrix products in a dtype."""
        entry = self._of_dtype("matrix_products", dtype)
        if entry is None:
            return None
        launch, depth = entry["launch_us"] * MICRO, entry["depth_ns"] * NANO
        fractions = (entry["compute"], entry["memory"], entry["exponent"])
        return KernelConstants(launch, depth, *fractions, Origin.of(entry))

    @_once
    def attention(self, dtype: str) -> KernelConstants | None:
        """The constants of fused attention: those of a matrix product, but with its own share of the peak."""
        entry, product = self._of_dtype("attention", dtype), self.products(dtype)
        if entry is None or product is None:
            return None
        return product._replace(compute=entry["compute"], depth=0.0, origin=Origin.of(entry))

    @_once
    def experts(self, dtype: str) -> KernelConstants | None:
        """The constants of products of routed experts: of their own, else those of other products."""
        entry = self._of_dtype("experts", dtype)
        product = self.products(dtype)
        return product if entry is None or product is None else product._replace(compute=entry["compute"])

    @_once
    def memory_bound(self, kind: str) -> KernelConstants | None:
        """The constants of a kind of memory-bound kernels, such as normalization."""
        entry = self.groups.get("memory_bound", {}).get(kind)
        if entry is None:
            return None
        return KernelConstants.of_memory(entry["launch_us"] * MICRO, entry["memory"], Origin.of(entry))

    def ring(self, ranks: int) -> RingConstants | None:
        """The constants of collectives among so many ranks, of the next smaller group, or the smallest."""
        sizes = sorted(int(size) for size in self.groups.get("communication", {}))
        if not sizes:
            return None
        size = max((n for n in sizes if n <= ranks), default=sizes[0])
        entry = self.groups["communication"][str(size)]
        small = entry["small_low"], entry["small_high"]
        return RingConstants(size, entry["latency_us"] * MICRO, entry["link"], *small, Origin.of(entry))

    def step(self, dtype: str) -> StepConstants | None:
        """The constants of a training step in a dtype."""
        entry = self._of_dtype("training", dtype)
        if entry is None:
            return None
        numbers = {key: entry[key] for key in StepConstants._fields if key in entry}
        return StepConstants(**numbers, origin=Origin.of(entry))

    def _of_dtype(self, group: str, dtype: str) -> Entry | None:
        entries = self.groups.get(group, {})
        return next((entries[name] for name in (dtype, *SUBSTITUTES.get(dtype, ())) if name in entries), None)
