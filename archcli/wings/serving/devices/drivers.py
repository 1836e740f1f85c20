"""What drivers say of this machine: parsers of nvidia-smi, rocm-smi, macOS and /proc. No torch.

The parsers of rocm-smi and macOS were tried on texts alone, written after outputs that people published
(tests/load/devices/printed/), not on such machines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from archcli.wings.serving.devices.datasheet import SourcedFigure
from archcli.wings.serving.recorded.cuda_driver import local_gpus

PROC = Path("/proc")
MIB, KIB = 2**20, 2**10
NVIDIA_SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,memory.reserved,compute_cap,power.default_limit,memory.free",
    "--format=csv,noheader,nounits",
)
ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "gtt", "--json")
SYSCTL = ("sysctl", "machdep.cpu.brand_string", "hw.memsize")
# of its own: sysctl fails as a whole where it does not know a name, as before macOS 14
WIRED_LIMIT = ("sysctl", "iogpu.wired_limit_mb")
DISPLAYS = ("system_profiler", "SPDisplaysDataType", "-json")
VM_STAT = ("vm_stat",)
FLOPS_PER_CYCLE = {"avx512f": 64, "fma": 32, "asimd": 16}
"""fp32 FLOPs of a core in a cycle: two units of vectors, a multiplication and an addition each."""
LEAST_VRAM = 2**30
"""Bytes; a GPU with less of its own shares the processor's memory: the rest of it is `gtt`."""

Run = Callable[[Sequence[str]], str]
"""What a program prints; empty where it is not there, fails or hangs."""


class LocalDevice(NamedTuple):
    """A device of this machine, or several alike, by its driver.

    figures: from the driver, by key. source: the driver's program.
    n_alike: the number of alike devices. free_bytes: of the fullest; None where the driver does not say.
    known_as: possible names on the list of devices.
    is_shared: a processor's GPU, in the processor's memory.
    """

    name: str
    vendor: str
    kind: str
    figures: Mapping[str, SourcedFigure]
    source: str
    architecture: str = ""
    n_alike: int = 1
    known_as: tuple[str, ...] = ()
    free_bytes: int | None = None
    is_shared: bool = False


def within(longest_s: float) -> Run:
    """A `Run` that gives each program so many seconds."""
    return partial(_output, longest_s=longest_s)


def _output(command: Sequence[str], longest_s: float) -> str:
    try:
        # a session of its own, which ends with all that the program has started
        with subprocess.Popen(  # noqa: S603
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=longest_s)
            except BaseException:
                _kill(process)
                raise
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if process.returncode else out


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a program and, where there are groups of processes, what it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def local_gpus_of(run: Run, proc: Path = PROC) -> tuple[LocalDevice, ...]:
    """The GPUs of this machine, alike ones as one; none where no driver answers."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        nvidia = of_cuda_driver()  # nvidia-smi lists what is hidden, too
    else:
        nvidia = of_nvidia_smi(run(NVIDIA_SMI), text_of(proc / "meminfo")) or of_cuda_driver()
    gpus = (*nvidia, *of_rocm_smi(run(ROCM_SMI)))
    return gpus or of_macos(run(SYSCTL), run)


def text_of(path: Path) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def of_nvidia_smi(text: str, meminfo: str = "") -> tuple[LocalDevice, ...]:
    """The GPUs that nvidia-smi lists, by name and memory.

    On each line a name, MiB in all, MiB reserved, capability, W, MiB free.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    lines = [row for row in rows if len(row) == len(NVIDIA_SMI[1].split(","))]
    kinds: dict[tuple[str, str], list[list[str]]] = {}
    for line in lines:
        kinds.setdefault((line[0], line[1]), []).append(line)
    return tuple(_of_nvidia_lines(alike, meminfo) for alike in kinds.values())


def _of_nvidia_lines(lines: Sequence[Sequence[str]], meminfo: str) -> LocalDevice:
    name, total, reserved, capability, power, _ = lines[0]
    source = "nvidia-smi: memory.total without memory.reserved"
    if number(total) or total.lstrip("-").isdigit():
        size = max(0, round((number(total) - number(reserved)) * MIB))
    else:
        # GB10 and Jetson: [N/A], as the memory is the processor's
        size, source = total_memory(meminfo), "/proc/meminfo: MemTotal, which the processor shares"
    figures = {"memory_bytes": SourcedFigure(size, "A", source)} if size else {}
    if number(power):
        figures["tdp_w"] = SourcedFigure(round(number(power)), "A", "nvidia-smi: power.default_limit")
    architecture = f"sm_{capability.replace('.', '')}" if number(capability) else ""
    free = None if any(not line[-1].isdigit() for line in lines) else min(int(line[-1]) for line in lines)
    free_bytes = None if free is None else free * MIB
    known_as = (name,)
    return LocalDevice(
        name, "NVIDIA", "gpu", figures, "nvidia-smi", architecture, len(lines), known_as, free_bytes
    )


def of_cuda_driver() -> tuple[LocalDevice, ...]:
    """The GPUs that the CUDA driver shows to programs, where nvidia-smi is not there or shows others."""
    source = "the CUDA driver"
    return tuple(
        LocalDevice(
            gpu.name,
            "NVIDIA",
            "gpu",
            {"memory_bytes": SourcedFigure(gpu.memory_bytes, "A", f"{source}: cuDeviceTotalMem")},
            source,
            gpu.architecture,
            n_alike,
            (gpu.name,),
        )
        for gpu, n_alike in Counter(local_gpus()).items()
    )


def of_rocm_smi(text: str) -> tuple[LocalDevice, ...]:
    """The cards of `rocm-smi --json`, by name and memory."""
    try:
        # warnings may stand before it
        answer = json.loads(text[text.index("{") :])
        cards = [_lower(card) for key, card in answer.items() if key.startswith("card")]
    except (ValueError, AttributeError):
        return ()
    kinds: dict[tuple[str, str], list[dict[str, str]]] = {}
    for card in cards:
        kinds.setdefault((_amd_name(card), card.get("vram total memory (b)", "")), []).append(card)
    return tuple(_of_amd_cards(name, alike) for (name, _), alike in kinds.items())


def _lower(card: Mapping[str, Any]) -> dict[str, str]:
    # `Card series` until ROCm 5, `Card Series` since
    return {key.lower(): str(value) for key, value in card.items()}


def _amd_name(card: Mapping[str, str]) -> str:
    """The name of a card; what is no more than a number, such as 0x744c, is none."""
    names = (card.get(key, "") for key in ("card series", "device name", "card model"))
    return next((name for name in names if name and not re.fullmatch(r"0x\w+|N/A", name)), "AMD GPU")


def _of_amd_cards(name: str, cards: Sequence[Mapping[str, str]]) -> LocalDevice:
    sizes, used = _amd_memory(cards[0], "total"), [_amd_memory(card, "total used") for card in cards]
    # of an APU `vram` is what the firmware sets apart
    pool = "vram" if sizes["vram"] >= LEAST_VRAM else "gtt"
    source = f"rocm-smi: {pool.upper()} Total Memory"
    figures = {"memory_bytes": SourcedFigure(sizes[pool], "A", source)} if sizes[pool] else {}
    free = sizes[pool] - max(card[pool] for card in used)
    says_use = all(f"{pool} total used memory (b)" in card for card in cards)
    # Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] and Strix Halo [Radeon 8050S / Radeon 8060S] of the PCI list
    chip, _, inside = name.partition("[")
    known_as = tuple(part.strip(" ]") for part in (*inside.split("/"), chip) if part.strip(" ]"))
    return LocalDevice(
        name,
        "AMD",
        "gpu",
        figures,
        "rocm-smi",
        cards[0].get("gfx version", ""),
        len(cards),
        known_as,
        free if says_use and sizes[pool] else None,
        is_shared=pool == "gtt",
    )


def _amd_memory(card: Mapping[str, str], what: str) -> dict[str, int]:
    return {pool: round(number(card.get(f"{pool} {what} memory (b)", ""))) for pool in ("vram", "gtt")}


def of_macos(text: str, run: Run) -> tuple[LocalDevice, ...]:
    """The chip of a Mac: name and memory by sysctl, the cores of its GPU by system_profiler.

    Its memory is Metal's limit where that is set, else what Metal recommends.
    """
    says = pairs(text)
    name, size = says.get("machdep.cpu.brand_string", ""), number(says.get("hw.memsize", ""))
    if not name.startswith("Apple"):
        return ()
    cores, memory = next(_gpu_cores(run(DISPLAYS)), ""), f"{size / 2**30:.0f}GB"
    limit = number(pairs(run(WIRED_LIMIT)).get("iogpu.wired_limit_mb", ""))
    if limit:
        figure = SourcedFigure(round(limit * MIB), "A", "sysctl: iogpu.wired_limit_mb")
    else:
        source = "sysctl: hw.memsize, of which Metal recommends three quarters"
        figure = SourcedFigure(round(size * 3 / 4), "C", source)
    known_as = (f"{name} {cores}-core {memory}",) if cores else (f"{name} {memory}",)
    return (LocalDevice(name, "Apple", "gpu", {"memory_bytes": figure}, "sysctl", known_as=known_as),)


def _gpu_cores(text: str) -> Iterator[str]:
    """The number of cores of each GPU that system_profiler describes."""
    try:
        for gpu in json.loads(text)["SPDisplaysDataType"]:
            cores = str(gpu.get("sppci_cores", ""))
            if cores.isdigit():
                yield cores
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def available_of_vm_stat(text: str) -> int | None:
    """Bytes that macOS can hand out: free, inactive and speculative pages of `vm_stat`."""
    page = re.search(r"page size of (\d+) bytes", text)
    says = pairs(text)
    keys = ("Pages free", "Pages inactive", "Pages speculative")
    counts = [number(says.get(key, "").removesuffix(".")) for key in keys]
    return round(sum(counts)) * int(page[1]) if page and any(counts) else None


def of_proc(cpuinfo: str, meminfo: str) -> LocalDevice | None:
    """The processor by /proc: its name and memory, and an estimate of its fp32 rate."""
    says, size = pairs(cpuinfo), total_memory(meminfo)
    if not says or not size:
        return None
    name = says.get("model name", "CPU")
    figures = {"memory_bytes": SourcedFigure(size, "A", "/proc/meminfo: MemTotal")}
    flags = set((says.get("flags") or says.get("Features", "")).split())
    per_cycle = max((flops for flag, flops in FLOPS_PER_CYCLE.items() if flag in flags), default=0)
    clock, cores = number(says.get("cpu MHz", "")), cpuinfo.count("processor\t") // _threads(says)
    if per_cycle and clock and cores:
        source = f"{cores} cores x {per_cycle} FLOPs x the clock of now, {clock:.0f} MHz"
        figures["fp32_tflops"] = SourcedFigure(round(cores * per_cycle * clock / 1e6, 2), "C", source)
    return LocalDevice(name, "unknown", "cpu", figures, "/proc/cpuinfo and /proc/meminfo")


def _threads(says: Mapping[str, str]) -> int:
    """Threads of a core: siblings of a package over its cores."""
    siblings, cores = number(says.get("siblings", "")), number(says.get("cpu cores", ""))
    return max(1, round(siblings / cores)) if siblings and cores else 1


def pairs(text: str) -> dict[str, str]:
    """The first value of each key of lines such as `cpu MHz : 2400.0`."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values.setdefault(key.strip(), value.strip())
    return values


def total_memory(meminfo: str) -> int:
    """Bytes of MemTotal in /proc/meminfo, whose "kB" are KiB; 0 where there is none."""
    return round(number(pairs(meminfo).get("MemTotal", "").removesuffix(" kB")) * KIB)


def number(text: str) -> float:
    """A number, or 0 for what is none, [N/A], or below it: no driver's figure is."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return max(0.0, value) if isfinite(value) else 0.0
