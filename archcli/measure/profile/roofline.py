"""The roofline model: the ceiling that bounds an operation, and the share of it that was reached.

Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785, with two bandwidths: what moves more bytes
a second than memory can deliver was in a cache.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.recording.machine import Ceilings


class Bound(NamedTuple):
    """The ceiling that limits an operation, and the share of it that was reached.

    The share is above 1 where counted bytes never moved, as in fused kernels.
    """

    roof: Literal["compute", "memory", "cache"]
    share: float


def bound(flops: int, moved: int, seconds: float, ceilings: Ceilings | None) -> Bound | None:
    """Find the ceiling that limits an operation, by its executed FLOPs and bytes.

    None without ceilings, where it took no time, and where it neither computed nor moved anything.
    """
    if not ceilings or seconds <= 0 or not (flops or moved):
        return None
    compute_s, memory_s = flops / ceilings["gemm_flops_per_s"], moved / ceilings["dram_bytes_per_s"]
    if compute_s >= memory_s:
        return Bound("compute", compute_s / seconds)
    if memory_s <= seconds:
        return Bound("memory", memory_s / seconds)
    # faster than memory can deliver: the bytes came from a cache
    return Bound("cache", max(compute_s, moved / ceilings["cache_bytes_per_s"]) / seconds)
