"""What this machine can do at best, measured here and now: matrix products, and copies of buffers larger and smaller than its caches.

A roof is the fastest of many tries, as a neighbour can only slow one down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

SIDES = (512, 1024, 2048)
"""Square products: large enough to fill the units, small enough for a fraction of a second."""
GPU_SIDES = (4096, 8192)
DRAM_BYTES, CACHE_BYTES = 256 << 20, (128 << 10, 512 << 10, 2 << 20)
LEAST_TRIES, BUDGET_S = 3, 0.25
"""Each figure gets so many tries, and more while its share of time lasts."""


class Ceilings(NamedTuple):
    """Rates per second. `dtype` is that of the products; a copy reads and writes, so its bytes count twice."""

    gemm_flops_per_s: float
    dram_bytes_per_s: float
    cache_bytes_per_s: float
    dtype: str


def measure_ceilings(name: str, dtype: torch.dtype, device: str) -> Ceilings:
    """Measure all three on the device; `name` is the dtype's."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else _nothing
    sides = GPU_SIDES if device.startswith("cuda") else SIDES
    with torch.no_grad():
        gemm = max(_gemm(side, dtype, device, wait) for side in sides)
        dram = _copy(DRAM_BYTES if device == "cpu" else 4 * DRAM_BYTES, device, wait)
        cache = max(_copy(size, device, wait) for size in CACHE_BYTES)
    return Ceilings(gemm, dram, max(cache, dram), name)


def _nothing() -> None:
    return


def _gemm(side: int, dtype: torch.dtype, device: str, wait: Callable[[], Any]) -> float:
    """FLOP/s of x w^T, which is what a linear layer runs."""
    x, weight = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device=device)
    return 2 * side**3 / _best(lambda: torch.mm(x, weight.t(), out=out), wait)


def _copy(size: int, device: str, wait: Callable[[], Any]) -> float:
    """Bytes read and written per second by copying within a buffer of `size` bytes, written once before so that its pages are there."""
    source, target = (torch.ones(size // 8, dtype=torch.float32, device=device) for _ in range(2))
    repeats = max(1, (4 << 20) // size)

    def copies() -> None:
        for _ in range(repeats):
            target.copy_(source)

    return repeats * size / _best(copies, wait)


def _best(run: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds of the fastest try after one to warm up."""
    run()
    wait()
    best, begun, tries = float("inf"), time.perf_counter(), 0
    while tries < LEAST_TRIES or time.perf_counter() - begun < BUDGET_S:
        start = time.perf_counter()
        run()
        wait()
        best, tries = min(best, time.perf_counter() - start), tries + 1
    return best
