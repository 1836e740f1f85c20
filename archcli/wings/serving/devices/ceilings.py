"""Rates measured on this machine, kept between runs in a small JSON of the user's cache folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

from archcli.arith import ELEMENT_BITS
from archcli.wings.serving.recorded.machine import Ceilings

MOST_BYTES = 1 << 20
LEAST_RATE, MOST_RATE = 1e3, 1e21
"""Between a relay computer and all computers: beyond, shares of a ceiling lose their meaning."""

SEPARATOR = " | "
RATES = ("gemm_flops_per_s", "dram_bytes_per_s", "cache_bytes_per_s")


class CeilingsKey(NamedTuple):
    """What measured rates hold for: the CPU, what computes, threads, dtype, device, and versions."""

    cpu: str
    processor: str
    threads: str
    dtype: str
    device: str
    versions: str

    @property
    def text(self) -> str:
        """The key in the file."""
        return SEPARATOR.join(self)

    @classmethod
    def of(cls, text: str) -> CeilingsKey | None:
        """The parts of a key; None for one that is not archcli's."""
        # the last field, the versions, may hold the separator itself
        parts = text.split(SEPARATOR, len(cls._fields) - 1)
        return cls(*parts) if len(parts) == len(cls._fields) else None


def ceilings_file() -> Path:
    """$XDG_CACHE_HOME/archcli/ceilings.json, or ~/.cache/archcli/ceilings.json."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "archcli" / "ceilings.json"


def kept_ceilings(path: Path) -> dict[str, Ceilings]:
    """The valid entries of the file by key; none where the file cannot be read, or is damaged."""
    try:
        # a named pipe in place of the file would block the read
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return {}
        document = json.loads(path.read_bytes())
    # json.loads raises RecursionError on deep nesting; a damaged cache is measured anew, never an error
    except (OSError, ValueError, RecursionError):
        return {}
    entries = document.items() if isinstance(document, dict) else ()
    rates = ((key, _rates(entry)) for key, entry in entries)
    return {key: entry for key, entry in rates if entry is not None}


def best_by_dtype(
    kept: Mapping[str, Ceilings], processor: str, device: Literal["cpu", "cuda"], gpu: str = ""
) -> dict[str, Ceilings]:
    """The kept rates of a CPU or GPU by dtype; of several runs those with the fastest product."""
    best: dict[str, Ceilings] = {}
    for text, ceilings in kept.items():
        key = CeilingsKey.of(text)
        if key is None or key.cpu != processor or key.dtype != ceilings["dtype"]:
            continue
        # cuda:0 is a device, cuda its kind
        if key.device.partition(":")[0] != device or (gpu and key.processor != gpu):
            continue
        known = best.get(key.dtype)
        if known is None or ceilings["gemm_flops_per_s"] > known["gemm_flops_per_s"]:
            best[key.dtype] = ceilings
    return best


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
    # archcli writes floats alone, so an int or a bool is damage; NaN, which json reads, fails the comparison
    return isinstance(value, float) and LEAST_RATE <= value <= MOST_RATE
