"""Roofs: how near an operation ran to what the machine can do, going by what was executed.

Williams, Waterman & Patterson 2009, doi:10.1145/1498765.1498785, with two slopes: what moves more bytes a second than memory can give was
in a cache.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.recording.ceilings import Ceilings


class Bound(NamedTuple):
    """The roof that binds, and the share of it that was reached; above 1 where counted bytes never moved, as in fused kernels."""

    roof: Literal["compute", "memory", "cache"]
    share: float


def bound(flops: int, moved: int, seconds: float, ceilings: Ceilings | None) -> Bound | None:
    """Which roof binds an operation of so many FLOPs and bytes; None without ceilings, time or anything done."""
    if not ceilings or seconds <= 0 or not (flops or moved):
        return None
    computing, moving = flops / ceilings["gemm_flops_per_s"], moved / ceilings["dram_bytes_per_s"]
    if computing >= moving:
        return Bound("compute", computing / seconds)
    if moving <= seconds:
        return Bound("memory", moving / seconds)
    return Bound("cache", max(computing, moved / ceilings["cache_bytes_per_s"]) / seconds)
