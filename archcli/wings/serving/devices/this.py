"""This machine: its GPUs, its RAM, and a YAML of its device. Without torch.

A GPU on archcli's list has the rates of the list and the memory that its driver reports. Any other has a name
and memory alone; a comment in its YAML names the figures to add from a datasheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, quote
from archcli.load.yaml.writer import mapping_to_yaml
from archcli.wings.serving.devices.budget import Budget, read_budget
from archcli.wings.serving.devices.datasheet import FIGURES, Datasheet, devices, load_datasheet
from archcli.wings.serving.devices.drivers import (
    PROC,
    SYSCTL,
    VM_STAT,
    LocalDevice,
    Run,
    available_of_vm_stat,
    local_gpus_of,
    number,
    of_proc,
    pairs,
    text_of,
    total_memory,
    within,
)
from archcli.wings.serving.recorded.machine import available_memory

LONGEST_S, PATIENT_S = 2, 20
"""Time limits of a driver's program (nvidia-smi): of `fit` and others, and of `archcli devices --this`."""
OF_THIS_DRIVER = "the driver of this machine"
NEAR_MEMORY = 0.1
"""The most that a driver's memory differs from a listed one, as |log(a / b)|: about 10%."""
NEEDED = ("memory_bytes", "bandwidth_gb_s", "bf16_tflops")
"""Figures that `predict` and `memory` need."""


class MachineDevice(NamedTuple):
    """Alike GPUs of this machine.

    name: as `--device` takes it, `rtx-4060-ti:16gb`; the driver's where it is not `is_listed`.
    n_devices: how many there are.
    memory_bytes: of each, by its driver; None where it does not say.
    free_bytes: of the fullest; None where the driver does not say.
    driver_name: as the driver spells it, `NVIDIA GeForce RTX 4060 Ti`.
    is_listed: whether archcli has its datasheet.
    """

    name: str
    n_devices: int
    memory_bytes: int | None
    free_bytes: int | None
    driver_name: str
    is_listed: bool

    @property
    def text(self) -> str:
        """`[N×]NAME`, as `--device` takes it."""
        return f"{self.n_devices}x{self.name}" if self.n_devices > 1 else self.name


class Machine(NamedTuple):
    """The GPUs, RAM and processor of this machine.

    devices: alike GPUs are one entry.
    ram_free_bytes: available without swapping.
    Numbers that the system does not tell are None; an unknown processor has an empty name.
    """

    devices: tuple[MachineDevice, ...]
    ram_bytes: int | None
    ram_free_bytes: int | None
    processor: str


def machine(run: Run | None = None, proc: Path = PROC) -> Machine:
    """Read the GPUs, RAM and processor of this machine; a driver's program has two seconds to answer."""
    run = within(LONGEST_S) if run is None else run
    gpus = local_gpus_of(run, proc)
    # the GPU that a desktop's processor has for its screens runs no models
    ours = tuple(_machine_device(gpu) for gpu in gpus if not gpu.is_shared or listed(gpu) is not None)
    ram, processor = total_memory(text_of(proc / "meminfo")), of_proc(*_proc(proc))
    if ram:
        return Machine(ours, ram, available_memory(proc), processor.name if processor else "")
    says = pairs(run(SYSCTL))
    ram = round(number(says.get("hw.memsize", "")))
    free = available_of_vm_stat(run(VM_STAT)) if ram else None
    return Machine(ours, ram or None, free, says.get("machdep.cpu.brand_string", ""))


def _proc(proc: Path) -> tuple[str, str]:
    return text_of(proc / "cpuinfo"), text_of(proc / "meminfo")


def _machine_device(gpu: LocalDevice) -> MachineDevice:
    sheet, figure = listed(gpu), gpu.figures.get("memory_bytes")
    if figure is None or (figure.certainty == "C" and sheet is not None):
        # certainty C is an estimate: the list knows what part of a Mac's RAM Metal leaves to the GPU
        figure = sheet.figures.get("memory_bytes") if sheet else None
    size = None if figure is None else int(figure.value)
    name = gpu.name if sheet is None else sheet.name
    return MachineDevice(name, gpu.n_alike, size, gpu.free_bytes, gpu.name, is_listed=sheet is not None)


def budget_of(device: MachineDevice) -> Budget:
    """The memory of this machine's devices, by the driver, else by the list.

    Raises ArchError where neither says it.
    """
    if device.memory_bytes is None:
        what = f"the driver does not say what memory {quote(device.driver_name)} has"
        raise ArchError(what, "state it: --memory 16GiB")
    known = read_budget(device.text) if device.is_listed else None
    if known is None:
        return Budget(device.name, device.n_devices, device.memory_bytes, "A", OF_THIS_DRIVER)
    if known.memory_bytes == device.memory_bytes:
        return known
    return known._replace(memory_bytes=device.memory_bytes, certainty="A", source=OF_THIS_DRIVER)


def listed(device: LocalDevice) -> Datasheet | None:
    """The listed device with a driver's name and memory: RTX 4060 Ti and 16 GB are `rtx-4060-ti:16gb`.

    A name of several cards (RX 7900 XT/7900 XTX) means the card with that memory. A card with another memory
    than the list has keeps its name: people change memories.
    """
    size = device.figures.get("memory_bytes")
    candidates = [sheet for name in device.known_as for sheet in _variants(name)]
    if size is None or size.certainty == "C":
        return candidates[0] if candidates else None
    best = min(candidates, key=lambda sheet: (_apart(sheet, size.value), ":" not in sheet.name), default=None)
    if best is not None and _apart(best, size.value) > NEAR_MEMORY:
        return candidates[0] if len(device.known_as) == 1 else None
    return best


def _apart(sheet: Datasheet, size: float) -> float:
    """Distance of a memory from a listed device's, as a logarithm; infinite where the list has none."""
    figure = sheet.figures.get("memory_bytes")
    return float("inf") if figure is None else abs(log(size / figure.value))


def _variants(name: str) -> Iterator[Datasheet]:
    """The listed devices of a name, one for each size of memory; none for an unknown name."""
    try:
        sheet = load_datasheet(name)
    except ArchError:
        return
    yield sheet
    if ":" not in sheet.name:
        yield from map(sheet.of_size, sheet.memory_sizes)
        # rtx-3080-12gb
        yield from (load_datasheet(listed) for listed in devices() if _is_of_size(listed, sheet.name))


def _is_of_size(listed: str, name: str) -> bool:
    start, _, size = listed.rpartition("-")
    return start == name and size.endswith("gb")


def this_machine(run: Run | None = None, proc: Path = PROC) -> str:
    """The YAML of this machine's GPU, or of its CPU where no driver answers.

    Raises ArchError where the system names neither.
    """
    gpus = local_gpus_of(within(PATIENT_S) if run is None else run, proc)
    device = gpus[0] if gpus else of_proc(*_proc(proc))
    if device is None:
        what = "neither nvidia-smi, rocm-smi, sysctl nor /proc says what this machine is"
        raise ArchError(what, "write its YAML by hand: `archcli devices h100-sxm` has the figures of one")
    return _yaml(device)


def _yaml(device: LocalDevice) -> str:
    """The YAML of a device: the listed figures, if any, with the memory that the driver reports."""
    sheet = listed(device)
    keys: dict[str, Any] = {"name": "this", "vendor": device.vendor, "kind": device.kind}
    architecture = (sheet.architecture if sheet else "") or device.architecture
    if architecture:
        keys["architecture"] = architecture
    keys |= {"source": device.source, "certainty": "A", "remark": device.name}
    figures = dict(device.figures)
    if sheet is not None:
        # where the driver's figure is an estimate (certainty C) the list is better
        driver = {key: figure for key, figure in device.figures.items() if figure.certainty != "C"}
        figures = {**sheet.figures, **driver}
        keys |= {"link": sheet.link} if sheet.link else {}
        keys |= {"same_chip": sheet.same_chip or sheet.name} if sheet.efficiency else {}
    keys |= {key: figures[key]._asdict() for key in FIGURES if key in figures}
    return "".join(f"# {line}\n" for line in _comments(device, keys)) + mapping_to_yaml(keys)


def _comments(device: LocalDevice, keys: Mapping[str, Any]) -> Sequence[str]:
    """Comments at the top of the YAML: how many such devices there are, and which figures are missing."""
    lines = [f"{device.n_alike} of them: --device {device.n_alike}x./THIS.yaml"] if device.n_alike > 1 else []
    missing = [key for key in NEEDED if key not in keys and not (key == NEEDED[-1] and "fp16_tflops" in keys)]
    if missing:
        lines.append(f"its datasheet has to add {', '.join(missing)}")
    return lines
