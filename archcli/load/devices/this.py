"""This machine: its GPUs as archcli names them and its RAM, and the YAML of its device. No torch.

A GPU of the list has the rates of the list and the memory that its driver reports. Of any other there are
name and memory, and a comment that names what its datasheet has to add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, quote
from archcli.load.devices.budget import Budget, read_budget
from archcli.load.devices.datasheet import FIGURES, Datasheet, devices, load_datasheet
from archcli.load.devices.drivers import (
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
from archcli.load.yaml.writer import mapping_to_yaml
from archcli.recording.machine import available_memory

LONGEST_S, PATIENT_S = 2, 20
"""Seconds that a driver's program may take: beside another question, and where it is the question."""
OF_THIS_DRIVER = "the driver of this machine"
NEAR_MEMORY = 0.1
"""By how much a driver's memory differs from that of a device of the list, at most, in either direction."""
NEEDED = ("memory_bytes", "bandwidth_gb_s", "bf16_tflops")
"""What predictions and memories ask of a device."""


class MachineDevice(NamedTuple):
    """Devices of this machine that are alike, as `--device` takes them.

    `name` is that of the list of devices, such as `rtx-4060-ti:16gb`, else the driver's own, and not
    `is_listed`. `memory_bytes` are what programs may have of each, by the driver; None where it does not say.
    `free_bytes` are those of the fullest, None where they are not known.
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
    """The GPUs of this machine, those that are alike as one, its RAM and its processor.

    `ram_bytes` and `ram_free_bytes` (available without swapping) are None, and `processor` is empty, where
    the system does not say.
    """

    devices: tuple[MachineDevice, ...]
    ram_bytes: int | None
    ram_free_bytes: int | None
    processor: str


def machine(run: Run | None = None, proc: Path = PROC) -> Machine:
    """This machine's GPUs, RAM and processor; no devices without a GPU or its driver.

    No driver's program is waited for longer than two seconds.
    """
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
        # of a Mac the list knows what Metal leaves to the GPU
        figure = sheet.figures.get("memory_bytes") if sheet else None
    size = None if figure is None else int(figure.value)
    name = gpu.name if sheet is None else sheet.name
    return MachineDevice(name, gpu.n_alike, size, gpu.free_bytes, gpu.name, is_listed=sheet is not None)


def budget_of(device: MachineDevice) -> Budget:
    """The memory of this machine's devices by their driver, with the datasheet of a listed one.

    Raises ArchError where neither the driver nor the list says how much it is.
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
    """The device of the list that a driver's names and memory mean, if any: a 4060 Ti of 8 or of 16 GB.

    A name of several cards (RX 7900 XT/7900 XTX) means the one of its memory. A card keeps its name with a
    memory that the list does not know: people change them.
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
    """By how much a memory differs from a device's, as a logarithm; from that of none endlessly."""
    figure = sheet.figures.get("memory_bytes")
    return float("inf") if figure is None else abs(log(size / figure.value))


def _variants(name: str) -> Iterator[Datasheet]:
    """The device of a name in each of its memories; none where the list does not know it."""
    try:
        sheet = load_datasheet(name)
    except ArchError:
        return
    yield sheet
    if ":" not in sheet.name:
        yield from map(sheet.of_size, sheet.memory_sizes)
        # rtx-3080-12gb
        yield from (load_datasheet(other) for other in devices() if _is_of_size(other, sheet.name))


def _is_of_size(other: str, name: str) -> bool:
    start, _, size = other.rpartition("-")
    return start == name and size.endswith("gb")


def this_machine(run: Run | None = None, proc: Path = PROC) -> str:
    """The YAML of this machine's GPU, or of its CPU where no driver answers.

    Raises ArchError where nothing says what there is.
    """
    gpus = local_gpus_of(within(PATIENT_S) if run is None else run, proc)
    device = gpus[0] if gpus else of_proc(*_proc(proc))
    if device is None:
        what = "neither nvidia-smi, rocm-smi, sysctl nor /proc says what this machine is"
        raise ArchError(what, "write its YAML by hand: `archcli devices h100-sxm` has the figures of one")
    return _yaml(device)


def _yaml(device: LocalDevice) -> str:
    """The YAML of a device: of the list with the driver's memory, or what the driver says."""
    sheet = listed(device)
    keys: dict[str, Any] = {"name": "this", "vendor": device.vendor, "kind": device.kind}
    architecture = (sheet.architecture if sheet else "") or device.architecture
    if architecture:
        keys["architecture"] = architecture
    keys |= {"source": device.source, "certainty": "A", "remark": device.name}
    figures = dict(device.figures)
    if sheet is not None:
        # what is no more than an estimate of the driver's the list knows better
        driver = {key: figure for key, figure in device.figures.items() if figure.certainty != "C"}
        figures = {**sheet.figures, **driver}
        keys |= {"link": sheet.link} if sheet.link else {}
        keys |= {"same_chip": sheet.same_chip or sheet.name} if sheet.efficiency else {}
    keys |= {key: figures[key]._asdict() for key in FIGURES if key in figures}
    return "".join(f"# {line}\n" for line in _comments(device, keys)) + mapping_to_yaml(keys)


def _comments(device: LocalDevice, keys: Mapping[str, Any]) -> Sequence[str]:
    """What a reader must know: how many there are, and what is not known."""
    lines = [f"{device.n_alike} of them: --device {device.n_alike}x./THIS.yaml"] if device.n_alike > 1 else []
    missing = [key for key in NEEDED if key not in keys and not (key == NEEDED[-1] and "fp16_tflops" in keys)]
    if missing:
        lines.append(f"its datasheet has to add {', '.join(missing)}")
    return lines
