"""Rates measured on this machine, kept between runs in a small JSON of the user's cache folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeGuard

from archcli.arith import ELEMENT_BITS
from archcli.recording.ceilings import Ceilings

MOST_BYTES = 1 << 20
LEAST_RATE, MOST_RATE = 1e3, 1e21
"""Between a relay computer and all computers: beyond, shares of a ceiling lose their meaning."""

RATES = ("gemm_flops_per_s", "dram_bytes_per_s", "cache_bytes_per_s")


def ceilings_file() -> Path:
    """$XDG_CACHE_HOME/archcli/ceilings.json, or ~/.cache/archcli/ceilings.json."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "archcli" / "ceilings.json"


def kept_ceilings(path: Path) -> dict[str, Ceilings]:
    """The valid entries of the file by key; none where the file cannot be read, or is damaged."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return {}
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = document.items() if isinstance(document, dict) else ()
    rates = ((key, _rates(entry)) for key, entry in entries)
    return {key: entry for key, entry in rates if entry is not None}


def machine_ceilings(
    kept: Mapping[str, Ceilings], processor: str, device: Literal["cpu", "cuda"], gpu: str = ""
) -> dict[str, Ceilings]:
    """Those of this machine by dtype, of several the ones with the fastest product.

    A key is the CPU, the processor that computes, threads, dtype, device and torch's version, ` | ` between.
    """
    found: dict[str, Ceilings] = {}
    for key, ceilings in kept.items():
        cpu, computing, _, dtype, where, *_ = (*key.split(" | "), "", "", "", "", "")
        is_device = where.partition(":")[0] == device and (not gpu or computing == gpu)
        fastest = found.get(dtype)
        if cpu == processor and is_device and dtype == ceilings["dtype"]:
            is_faster = fastest is None or ceilings["gemm_flops_per_s"] > fastest["gemm_flops_per_s"]
            found[dtype] = ceilings if is_faster or fastest is None else fastest
    return found


def _rates(entry: Any) -> Ceilings | None:
    """The rates of an entry; None where a rate is missing or not a number above zero."""
    if not isinstance(entry, dict) or str(entry.get("dtype")) not in ELEMENT_BITS:
        return None
    gemm, dram, cache = (entry.get(key) for key in RATES)
    if not (_is_rate(gemm) and _is_rate(dram) and _is_rate(cache)):
        return None
    return Ceilings(
        gemm_flops_per_s=gemm,
        dram_bytes_per_s=dram,
        cache_bytes_per_s=cache,
        dtype=entry["dtype"],
        measured="earlier",
    )


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, float) and LEAST_RATE <= value <= MOST_RATE
