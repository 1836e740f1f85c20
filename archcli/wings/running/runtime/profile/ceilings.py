"""Measured ceilings of this machine: matrix products, and copies beyond and within its caches.

A ceiling is the fastest of many tries: other load can only slow a try down. On a GPU the device times tries,
with hidden launches, and the cache is the L2. Products of fp32 follow torch's settings: fp32 unless TF32 is
on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from archcli.wings.running.runtime.profile.clock import Clock, clock_of, run_pass
from archcli.wings.serving.recorded.machine import Ceilings

MIB = 1 << 20
LEAST_TRIES, BUDGET_S = 3, 0.25
"""The fewest tries of a figure, and the seconds in which more follow."""


class Sizes(NamedTuple):
    """Sizes to try on a kind of device: square matrices, buffers in bytes, least bytes to copy."""

    sides: tuple[int, ...]
    dram: int
    caches: tuple[int, ...]
    least: int


CPU = Sizes((512, 1024, 2048), 256 * MIB, (MIB // 8, MIB // 2, 2 * MIB), 4 * MIB)
"""Square products: large enough to fill the units, small enough for a fraction of a second."""
L2_PARTS = (8, 4, 2)
"""Sizes of buffers: L2 / 8, L2 / 4, L2 / 2. A larger buffer would not stay in the L2."""


def measure_ceilings(name: str, dtype: torch.dtype, device: str) -> Ceilings:
    """Measure the three ceilings on the device; `name` is the dtype's."""
    clock, sizes = clock_of(device, hide_launch=True), sizes_of(device)
    with torch.no_grad():
        gemm = max(_gemm(side, dtype, device, clock) for side in sizes.sides)
        dram = _copy(sizes.dram, sizes.least, device, clock)
        cache = max(_copy(size, sizes.least, device, clock) for size in sizes.caches)
    return Ceilings(
        gemm_flops_per_s=gemm,
        dram_bytes_per_s=dram,
        # small copies have more overhead per byte, and may be slower than large ones
        cache_bytes_per_s=max(cache, dram),
        dtype=name,
        measured="now",
    )


def sizes_of(device: str) -> Sizes:
    """The sizes to try on a kind of device."""
    if not device.startswith("cuda"):
        return CPU
    l2 = l2_bytes(device)
    return Sizes((4096, 8192), 1024 * MIB, tuple(l2 // part for part in L2_PARTS), 256 * MIB)


def l2_bytes(device: str) -> int:
    """Bytes of a GPU's L2 cache."""
    size: int = torch.cuda.get_device_properties(torch.device(device)).L2_cache_size
    return size


def _gemm(side: int, dtype: torch.dtype, device: str, clock: Clock) -> float:
    """FLOP/s of the product x w^T, as in a linear layer."""
    x, weight = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device=device)
    return 2 * side**3 / _best(lambda: torch.mm(x, weight.t(), out=out), clock)


def _copy(size: int, least: int, device: str, clock: Clock) -> float:
    """Bytes read and written per second by copying initialised buffers of `size` bytes."""
    # size // 8: two buffers of size / 2 bytes, 4 bytes a float; a copy reads one and writes the other
    # torch.ones: pages that were never written all map to one page of zeros, which stays in the cache
    source, target = (torch.ones(size // 8, dtype=torch.float32, device=device) for _ in range(2))
    repeats = max(1, least // size)

    def copies() -> None:
        for _ in range(repeats):
            target.copy_(source)

    return repeats * size / _best(copies, clock)


def _best(run: Callable[[], Any], clock: Clock) -> float:
    """Seconds of the fastest run after some warm-up runs."""
    for _ in range(clock.warm_ups):
        clock.warm_up(run)
    best, begun, tries = float("inf"), time.perf_counter(), 0
    while tries < LEAST_TRIES or time.perf_counter() - begun < BUDGET_S:
        best, tries = min(best, run_pass(run, clock).seconds), tries + 1
    return best
