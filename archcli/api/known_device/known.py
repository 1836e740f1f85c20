"""The device that --device or --memory names, for commands that fit something into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import DeviceMemory, Family
from archcli.measure.memory.plan import DEVICES_PER_NODE

if TYPE_CHECKING:
    from archcli.load.devices.budget import Budget
    from archcli.load.devices.datasheet import SourcedFigure
    from archcli.measure.predict.answers.question import PredictedDevice
    from archcli.measure.predict.engine_kernels.clock import EngineClock


def device_memory(device: str | None, memory: str | int | None) -> DeviceMemory | None:
    """The device of `[N×]NAME`, or a memory such as 80GiB; None where neither is given.

    Raises ArchError for both, and for what they cannot mean.
    """
    if device is None and memory is None:
        return None
    from archcli.load.devices.budget import read_budget  # reads files, where a device is named

    budget = read_budget(device, memory)
    return None if budget is None else _memory_of(budget)


LINKS_OF_SERVERS = ("NVLink", "Infinity Fabric")
"""How the links of devices begin that are not sold as cards for PCIe."""


def _memory_of(budget: Budget) -> DeviceMemory:
    sheet = budget.datasheet
    return DeviceMemory(
        budget.name,
        budget.memory_bytes,
        budget.n_devices,
        budget.architecture,
        budget.certainty,
        budget.source,
        stated=budget.is_stated,
        family=_family(budget),
        per_node=DEVICES_PER_NODE if sheet is None else devices_per_node(sheet.figures),
        figures=None if sheet is None else frozenset(sheet.figures),
        of_servers=budget.link.startswith(LINKS_OF_SERVERS),
    )


def _family(budget: Budget) -> Family:
    """The kind of a device: a processor, a Mac's GPU, or any other."""
    if budget.kind == "cpu":
        return "cpu"
    return "metal" if budget.datasheet is not None and budget.datasheet.vendor == "Apple" else "gpu"


def devices_per_node(figures: Mapping[str, SourcedFigure]) -> int:
    """How many devices a link joins: as stated, 1 of those without a link, else as many as on a board."""
    if "devices_per_node" in figures:
        return int(figures["devices_per_node"].value)
    return DEVICES_PER_NODE if "link_gb_s" in figures else 1


def known_gpus() -> tuple[DeviceMemory, ...]:
    """The GPUs of `archcli devices` whose memory is known; of those that memory cannot tell apart, one."""
    from archcli.load.devices.datasheet import devices, load_datasheet  # reads a file for each

    gpus: dict[tuple[object, ...], DeviceMemory] = {}
    for sheet in map(load_datasheet, devices()):
        size = sheet.figures.get("memory_bytes")
        if sheet.kind == "gpu" and size is not None:
            facts = (int(size.value), 1, sheet.architecture, size.certainty, size.source)
            near = devices_per_node(sheet.figures)
            device = DeviceMemory(sheet.name, *facts, per_node=near)
            gpus.setdefault((size.value, sheet.architecture, sheet.link), device)
    return tuple(gpus.values())


def predicted_device(text: str, calibrations: Sequence[Path] = ()) -> PredictedDevice:
    """The device of `[N×]NAME` with its peaks, links and constants.

    `local` is this machine, with constants fitted to `calibrations`, profiles of it. Raises ArchError where
    its peaks are not known, and for calibrations of any other device.
    """
    from archcli.load.devices.budget import read_budget
    from archcli.measure.predict.answers.question import PredictedDevice
    from archcli.measure.predict.communication.collective import Fabric
    from archcli.measure.predict.constants import Efficiency, Rates
    from archcli.measure.predict.rank.rank_times import TimingDevice
    from archcli.measure.predict.times import KernelClock

    budget = read_budget(text)
    if budget is None:
        raise ArchError("--device names no device", "such as 8xh100-sxm, or local")
    memory = _memory_of(budget)
    if budget.is_stated:
        what = f"{text} is a memory alone, and nothing is known of the speed of its device"
        raise ArchError(what, "name a device, such as rtx-4090; memory, kvcache and fit take a memory")
    if budget.datasheet is None:
        from archcli.api.known_device.profiles import local_device  # of this machine alone

        return local_device(memory, budget.kind, calibrations)
    if calibrations:
        what = f"--calibrate takes profiles of this machine, and {text} is another device"
        raise ArchError(what, "--device local, or leave --calibrate out")
    figures = {name: figure.value for name, figure in budget.datasheet.figures.items()}
    clock = KernelClock(Rates.of(memory.name, figures), Efficiency(budget.datasheet.efficiency))
    links = (figures.get("link_gb_s"), figures.get("network_gb_s"))
    fabric = Fabric(memory.name, *links, memory.per_node)
    sheet, rates = budget.datasheet, clock.rates

    def kernels_of(engine: str) -> EngineClock | None:
        from archcli.api.known_device.lenders import engine_clock  # of served models alone

        return engine_clock(engine, sheet, rates)

    tdp_w = figures.get("tdp_w")
    return PredictedDevice(TimingDevice(clock, fabric), memory, tdp_w, kernels_of=kernels_of)
