"""Rates of this machine, as `archcli profile` measured its ceilings."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.predict.rates import LastCache, Rates
from archcli.recording.ceilings import Ceilings
from archcli.recording.machine import cache_size

MEASURED_BY = "`archcli profile gpt2 --dtype {dtype} --device %s` measures it"


def local_rates(name: str, ceilings: Mapping[str, Ceilings], backend: Backend) -> Rates:
    """The rates of this machine from measured ceilings by dtype. Raises ArchError where there are none."""
    if not ceilings:
        hint = f"`archcli profile gpt2 --device {backend}` measures them (with --dtype bf16 those of bf16)"
        raise ArchError("local: the peaks of this machine are not measured yet", hint)
    peaks = {dtype: rates["gemm_flops_per_s"] for dtype, rates in ceilings.items()}
    bandwidth = max(rates["dram_bytes_per_s"] for rates in ceilings.values())
    size = cache_size() if backend == "cpu" else None
    cached = max(rates["cache_bytes_per_s"] for rates in ceilings.values())
    cache = None if size is None else LastCache(size, cached)
    return Rates(name, peaks, bandwidth, cache, MEASURED_BY % backend)
