"""This machine as a device's YAML: what nvidia-smi, rocm-smi, macOS or /proc say of it. No torch.

A GPU of the list has the rates of the list and the memory that its driver reports. Of any other there are
name and memory, and a comment that names what its datasheet has to add.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.devices.datasheet import FIGURES, Datasheet, SourcedFigure, load_datasheet
from archcli.load.yaml.writer import mapping_to_yaml

PROC = Path("/proc")
LONGEST_S = 20
MIB, KIB = 2**20, 2**10
NVIDIA_SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,memory.reserved,compute_cap,power.default_limit",
    "--format=csv,noheader,nounits",
)
ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
SYSCTL = ("sysctl", "machdep.cpu.brand_string", "hw.memsize")
DISPLAYS = ("system_profiler", "SPDisplaysDataType")
FLOPS_PER_CYCLE = {"avx512f": 64, "fma": 32, "asimd": 16}
"""fp32 FLOPs of a core in a cycle: two units of vectors, a multiplication and an addition each."""
NEEDED = ("memory_bytes", "bandwidth_gb_s", "bf16_tflops")
"""What predictions and memories ask of a device."""

Run = Callable[[Sequence[str]], str]


class LocalDevice(NamedTuple):
    """A device as this machine names it: its own figures, and how many are alike.

    `known_as` is the name that the list of devices may know it by.
    """

    name: str
    vendor: str
    kind: str
    figures: Mapping[str, SourcedFigure]
    source: str
    architecture: str = ""
    n_alike: int = 1
    known_as: str = ""


def this_machine(run: Run | None = None, proc: Path = PROC) -> str:
    """The YAML of this machine's GPU, or of its CPU where no driver answers.

    Raises ArchError where nothing says what there is.
    """
    run = _output if run is None else run
    device = (
        of_nvidia_smi(run(NVIDIA_SMI), _text(proc / "meminfo"))
        or of_rocm_smi(run(ROCM_SMI))
        or of_macos(run(SYSCTL), run)
        or of_proc(_text(proc / "cpuinfo"), _text(proc / "meminfo"))
    )
    if device is None:
        what = "neither nvidia-smi, rocm-smi, sysctl nor /proc says what this machine is"
        raise ArchError(what, "write its YAML by hand: `archcli devices h100-sxm` has the figures of one")
    return _yaml(device)


def _output(command: Sequence[str]) -> str:
    """What a program prints; empty where it is not there, fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def of_nvidia_smi(text: str, meminfo: str = "") -> LocalDevice | None:
    """The first GPU that nvidia-smi lists: on each line a name, MiB in all, MiB reserved, capability, W."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    lines = [row for row in rows if len(row) == len(NVIDIA_SMI[1].split(","))]
    if not lines:
        return None
    name, total, reserved, capability, power = lines[0]
    source = "nvidia-smi: memory.total without memory.reserved"
    if _number(total):
        size = round((_number(total) - _number(reserved)) * MIB)
    else:
        # GB10 and Jetson: [N/A], as the memory is the processor's
        size, source = _total(meminfo), "/proc/meminfo: MemTotal, which the processor shares"
    figures = {"memory_bytes": SourcedFigure(size, "A", source)} if size else {}
    if _number(power):
        figures["tdp_w"] = SourcedFigure(round(_number(power)), "A", "nvidia-smi: power.default_limit")
    architecture = f"sm_{capability.replace('.', '')}" if _number(capability) else ""
    alike = sum(line[0] == name for line in lines)
    return LocalDevice(name, "NVIDIA", "gpu", figures, "nvidia-smi", architecture, alike, name)


def of_rocm_smi(text: str) -> LocalDevice | None:
    """The first card of `rocm-smi --json`."""
    try:
        cards = [card for key, card in json.loads(text).items() if key.startswith("card")]
        first = {key.lower(): str(value) for key, value in cards[0].items()}
    except (ValueError, AttributeError, IndexError):
        return None
    name = first.get("card series") or first.get("card model") or "AMD GPU"
    size = _number(first.get("vram total memory (b)", ""))
    source = "rocm-smi: VRAM Total Memory"
    figures = {"memory_bytes": SourcedFigure(round(size), "A", source)} if size else {}
    return LocalDevice(
        name, "AMD", "gpu", figures, "rocm-smi", first.get("gfx version", ""), len(cards), name
    )


def of_macos(text: str, run: Run) -> LocalDevice | None:
    """The chip of a Mac: its name and memory by sysctl, and the cores of its GPU by system_profiler."""
    says = _pairs(text)
    name, size = says.get("machdep.cpu.brand_string", ""), _number(says.get("hw.memsize", ""))
    if not name.startswith("Apple"):
        return None
    cores = _pairs(run(DISPLAYS)).get("Total Number of Cores", "")
    known_as = f"{name} {cores}-core {size / 2**30:.0f}GB" if cores else f"{name} {size / 2**30:.0f}GB"
    source = "sysctl: hw.memsize, of which Metal recommends three quarters"
    figures = {"memory_bytes": SourcedFigure(round(size * 3 / 4), "C", source)}
    return LocalDevice(name, "Apple", "gpu", figures, "sysctl", known_as=known_as)


def of_proc(cpuinfo: str, meminfo: str) -> LocalDevice | None:
    """The processor by /proc: its name and memory, and an estimate of its fp32 rate."""
    says, size = _pairs(cpuinfo), _total(meminfo)
    if not says or not size:
        return None
    name = says.get("model name", "CPU")
    figures = {"memory_bytes": SourcedFigure(size, "A", "/proc/meminfo: MemTotal")}
    flags = set((says.get("flags") or says.get("Features", "")).split())
    per_cycle = max((flops for flag, flops in FLOPS_PER_CYCLE.items() if flag in flags), default=0)
    clock, cores = _number(says.get("cpu MHz", "")), cpuinfo.count("processor\t") // _threads(says)
    if per_cycle and clock and cores:
        source = f"{cores} cores x {per_cycle} FLOPs x the clock of now, {clock:.0f} MHz"
        figures["fp32_tflops"] = SourcedFigure(round(cores * per_cycle * clock / 1e6, 2), "C", source)
    return LocalDevice(name, "unknown", "cpu", figures, "/proc/cpuinfo and /proc/meminfo")


def _threads(says: Mapping[str, str]) -> int:
    """Threads of a core: siblings of a package over its cores."""
    siblings, cores = _number(says.get("siblings", "")), _number(says.get("cpu cores", ""))
    return max(1, round(siblings / cores)) if siblings and cores else 1


def _pairs(text: str) -> dict[str, str]:
    """The first value of each key of lines such as `cpu MHz : 2400.0`."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def _total(meminfo: str) -> int:
    """Bytes of MemTotal in /proc/meminfo, whose "kB" are KiB; 0 where there is none."""
    return round(_number(_pairs(meminfo).get("MemTotal", "").removesuffix(" kB")) * KIB)


def _number(text: str) -> float:
    """A number, or 0 for what is none: [N/A]."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if isfinite(number) else 0.0


def _yaml(device: LocalDevice) -> str:
    """The YAML of a device: of the list with the driver's memory, or what the driver says."""
    sheet = _listed(device.known_as)
    keys: dict[str, Any] = {"name": "this", "vendor": device.vendor, "kind": device.kind}
    architecture = (sheet.architecture if sheet else "") or device.architecture
    if architecture:
        keys["architecture"] = architecture
    keys |= {"source": device.source, "certainty": "A", "remark": device.name}
    figures = dict(device.figures)
    if sheet is not None:
        # of a Mac the list knows what Metal leaves to the GPU
        driver = {} if device.vendor == "Apple" else device.figures
        figures = {**sheet.figures, **driver}
        keys |= {"link": sheet.link} if sheet.link else {}
        keys |= {"same_chip": sheet.same_chip or sheet.name} if sheet.efficiency else {}
    keys |= {key: figures[key]._asdict() for key in FIGURES if key in figures}
    return "".join(f"# {line}\n" for line in _comments(device, keys)) + mapping_to_yaml(keys)


def _listed(name: str) -> Datasheet | None:
    """The device of the list that a driver's name means, if any."""
    if not name:
        return None
    try:
        return load_datasheet(name)
    except ArchError:
        return None


def _comments(device: LocalDevice, keys: Mapping[str, Any]) -> list[str]:
    """What a reader must know: how many there are, and what is not known."""
    lines = [f"{device.n_alike} of them: --device {device.n_alike}x./THIS.yaml"] if device.n_alike > 1 else []
    missing = [key for key in NEEDED if key not in keys and not (key == NEEDED[-1] and "fp16_tflops" in keys)]
    if missing:
        lines.append(f"its datasheet has to add {', '.join(missing)}")
    return lines
