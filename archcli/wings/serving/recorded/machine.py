"""The machine as Linux describes it in /proc and /sys, and the ceilings of its roofline. No torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from archcli.modules.spec.values import Meaning


class Ceilings(TypedDict):
    """The highest speeds that were measured on a machine: matrix products and copies."""

    gemm_flops_per_s: Annotated[float, Meaning("FLOPs a second of the fastest matrix product.")]
    dram_bytes_per_s: Annotated[
        float, Meaning("Bytes a second of a copy beyond the caches, read and written.")
    ]
    cache_bytes_per_s: Annotated[float, Meaning("Bytes a second of a copy within a cache, read and written.")]
    dtype: Annotated[str, Meaning("In which numbers the product was.")]
    measured: Annotated[
        Literal["now", "earlier"],
        Meaning("In this run, or in an earlier one of the same machine."),
    ]


PROC, GROUPS, CPUS = Path("/proc"), Path("/sys/fs/cgroup"), Path("/sys/devices/system/cpu")
# guest times (8, 9) are included in user and nice; idle and iowait (3, 4) are no work
BUSY, STOLEN = (0, 1, 2, 5, 6), 7
"""Columns of /proc/stat: user, nice, system, irq and softirq; steal, time that a VM's host took."""


def available_memory(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Bytes available without swapping: the kernel's estimate, or less under a control group.

    None where the system does not say (not Linux).
    """
    rooms = [
        *_of_meminfo(proc, "MemAvailable"),
        *(limit - used for limit, used in _control_group(proc, groups)),
    ]
    return max(0, min(rooms)) if rooms else None


def total_memory(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Bytes of RAM, or the limit of a control group; None where the system does not say (not Linux)."""
    limits = [*_of_meminfo(proc, "MemTotal"), *(limit for limit, _ in _control_group(proc, groups))]
    return min(limits, default=None)


def cores(proc: Path = PROC) -> int:
    """The cores of all sockets; threads of a core count once where the system tells them apart."""
    blocks = [block.splitlines() for block in _text(proc / "cpuinfo").split("\n\n") if "processor" in block]
    places = {
        tuple(line for line in block if line.startswith(("physical id", "core id"))) for block in blocks
    }
    return len(blocks) if places == {()} else len(places)


def processor() -> str:
    """The processor's model name and the number of processors; empty where unknown."""
    names = [
        line.partition(":")[2].strip()
        for line in _text(PROC / "cpuinfo").splitlines()
        if line.startswith("model name")
    ]
    return f"{len(names)} x {names[0]}" if names else ""


def cache_size(cpus: Path = CPUS, usable: Iterable[int] | None = None) -> int | None:
    """Bytes of the last-level caches of the usable processors in total; None where unknown."""
    levels: dict[int, dict[str, int]] = {}
    numbers = usable_processors() if usable is None else usable
    for folder in chain.from_iterable(cpus.glob(f"cpu{number}/cache/index[0-9]*") for number in numbers):
        level, size, shared = (_text(folder / name).strip() for name in ("level", "size", "shared_cpu_list"))
        if level.isdigit() and size.removesuffix("K").isdigit():
            # keyed by the processors that share it, so that each cache counts once
            levels.setdefault(int(level), {})[shared] = int(size.removesuffix("K")) * 1024
    return sum(levels[max(levels)].values()) if levels else None


def usable_processors() -> list[int]:
    """Numbers of the processors that this process may use."""
    # macOS has no affinity
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def processor_seconds(proc: Path = PROC) -> tuple[float | None, float | None]:
    """(seconds that the usable processors were busy, seconds that a VM's host took from them).

    None where the system does not say (not Linux).
    """
    names = {f"cpu{number}" for number in usable_processors()}
    lines = [line.split() for line in _text(proc / "stat").splitlines()]
    ticks = [list(map(int, values)) for name, *values in filter(None, lines) if name in names]
    if not ticks:
        return None, None
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    busy = sum(columns[i] for columns in ticks for i in BUSY)
    return busy * tick_s, sum(columns[STOLEN] for columns in ticks) * tick_s


def waited_seconds(proc: Path = PROC) -> float | None:
    """Seconds that threads of this process waited for a processor, in total; None where unknown."""
    waits = [_text(path).split() for path in (proc / "self" / "task").glob("*/schedstat")]
    # schedstat: nanoseconds that it ran, nanoseconds that it waited, number of turns
    known = [int(values[1]) for values in waits if len(values) > 1]
    return sum(known) / 1e9 if known else None


def _of_meminfo(proc: Path, key: str) -> list[int]:
    # "kB" of /proc are KiB
    lines = _text(proc / "meminfo").splitlines()
    return [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")]


def _control_group(proc: Path, groups: Path) -> list[tuple[int, int]]:
    """(limit, bytes used) of each of this process's control groups with a limit (v1, v2)."""
    # a container sees its group at the root; on a host /proc/self/cgroup has the path of the group
    rooms = [
        _room(groups, "memory.max", "memory.current"),
        _room(groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ]
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        # the line of version 2: `0::/path`
        if not controllers:
            rooms.append(_room(groups / path.lstrip("/"), "memory.max", "memory.current"))
        elif "memory" in controllers.split(","):
            rooms.append(
                _room(groups / "memory" / path.lstrip("/"), "memory.limit_in_bytes", "memory.usage_in_bytes")
            )
    return [room for room in rooms if room is not None]


def _room(folder: Path, limit_name: str, used_name: str) -> tuple[int, int] | None:
    """The limit and the bytes used; inactive file pages count as free, as the kernel can drop them."""
    limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
    if not limit.isdigit() or not used.isdigit():  # "max" is no limit
        return None
    droppable = sum(
        int(line.split()[1])
        for line in _text(folder / "memory.stat").splitlines()
        if line.startswith("inactive_file ")
    )
    return int(limit), int(used) - droppable


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
