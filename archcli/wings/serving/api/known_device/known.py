"""All that is known of a device, from files and measurements, put together in one place.

- memory: of the datasheet, of this machine's driver, or of --memory;
- peaks and links: of the datasheet, or measured on this machine;
- constants: fitted to measurements of this device, or of the device that lends them;
- an engine's kernels and constants.

A file is read only when a question needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from archcli.errors import ArchError
from archcli.units import binary_bytes
from archcli.wings.serving.api.known_device.machines import LINKS_OF_SERVERS, Machines, network_constants
from archcli.wings.serving.memory.plan import DEVICES_PER_NODE, DeviceMemory, Family
from archcli.wings.serving.predict.engine_kernels.choice import FOREIGN

if TYPE_CHECKING:
    from archcli.measure.kvcache.engine import InferenceEngine
    from archcli.modules import Model
    from archcli.wings.serving.devices.budget import Budget
    from archcli.wings.serving.devices.datasheet import Datasheet
    from archcli.wings.serving.predict.answers.question import PredictedDevice
    from archcli.wings.serving.predict.constants import Rates
    from archcli.wings.serving.predict.engine_kernels.clock import EngineClock

ONE_BY_FILE = Machines()
"""Machines of which nothing is stated: how many devices are in each is a fact of the device."""
WHOLE_RUNS = ("llamacpp", "mlx")
"""Engines with constants of whole runs."""


@dataclass(frozen=True)
class KnownDevice:
    """The device of --device, or the memory of --memory.

    text: `[N×]NAME` as written.
    budget: its memory, with the datasheet of a named device.
    calibrations: profiles of this machine, to which its constants are fitted.
    machines: those that the devices stand in.
    free_bytes: what other programs leave of each device; None for all.
    """

    text: str
    budget: Budget
    calibrations: tuple[Path, ...] = ()
    machines: Machines = ONE_BY_FILE
    free_bytes: int | None = None

    @cached_property
    def memory(self) -> DeviceMemory:
        """The memory that a model is to fit into: bytes, number of devices, usual software."""
        budget, figures, sheet = self.budget, self._figures, self.budget.datasheet
        maker = "" if sheet is None else f"{sheet.vendor} {sheet.kind}"
        return DeviceMemory(
            budget.name,
            budget.memory_bytes,
            budget.n_devices,
            budget.architecture,
            budget.certainty,
            budget.source,
            stated=budget.is_stated,
            family=_family(budget),
            per_node=self.in_each or (DEVICES_PER_NODE if figures is None else devices_per_node(figures)),
            figures=None if figures is None else frozenset(figures),
            of_servers=budget.link.startswith(LINKS_OF_SERVERS),
            free_bytes=self.free_bytes or budget.free_bytes,
            in_all_bytes=budget.in_all_bytes or budget.memory_bytes,
            platform="cpu" if budget.kind == "cpu" else budget.architecture or maker,
        )

    @cached_property
    def _figures(self) -> dict[str, float] | None:
        """The figures of the datasheet by name; None without one."""
        sheet = self.budget.datasheet
        return None if sheet is None else {key: figure.value for key, figure in sheet.figures.items()}

    @property
    def in_each(self) -> int | None:
        """Devices in each machine; None where nothing says how many."""
        budget = self.budget
        return self.machines.in_each(budget.n_devices, self.text, self._figures or {}, budget.link)

    @cached_property
    def timed(self) -> PredictedDevice:
        """The device with peaks, links and constants.

        Raises ArchError for a memory alone, for peaks that are not known, and for profiles of this machine
        beside any other device.
        """
        budget = self.budget
        if budget.is_stated:
            what = f"{self.text} is a memory alone, and nothing is known of the speed of its device"
            raise ArchError(what, "name a device, such as rtx-4090; memory, kvcache and fit take a memory")
        if budget.datasheet is None:
            from archcli.wings.serving.api.known_device.profiles import local_device  # of this machine alone

            return local_device(self.memory, budget.kind, self.calibrations)
        if self.calibrations:
            what = f"--calibrate takes profiles of this machine, and {self.text} is another device"
            raise ArchError(what, "--device local, or leave --calibrate out")
        from archcli.wings.serving.predict.communication.collective import ANY_NUMBER

        device = _of_datasheet(budget.datasheet, self.memory)
        network_gb_s = self.machines.network_gb_s
        fabric = device.timing.fabric
        fabric = fabric._replace(
            network_gb_s=fabric.network_gb_s if network_gb_s is None else network_gb_s,
            devices_per_node=self.in_each or ANY_NUMBER,
            constants_of=network_constants,
        )
        return device._replace(timing=device.timing._replace(fabric=fabric))

    @property
    def maker(self) -> str:
        """The maker of a device that has constants of another maker's kernels, such as amd; else empty."""
        is_foreign = self.budget.architecture in FOREIGN
        return self.budget.datasheet.vendor.lower() if is_foreign and self.budget.datasheet else ""

    def run_by(
        self, engine: InferenceEngine, utilization: float | None, model: Model, chunk: int | None = None
    ) -> PredictedDevice:
        """The device with the part of its memory that an engine takes, and its constants of whole runs."""
        from archcli.wings.serving.devices.engines import load_engine  # of an engine alone

        versions = load_engine(engine.name).get("timed", "")
        device = self.timed._replace(memory=self.memory.taken_by(engine, utilization), timed_as=versions)
        if engine.name not in WHOLE_RUNS:
            return device
        from archcli.wings.serving.api.known_device.whole_runs import with_whole_runs  # of few engines alone

        return with_whole_runs(device, engine.name, self.budget, model, chunk or engine.chunk)


@dataclass(frozen=True)
class UnlikeDevices(KnownDevice):
    """Devices that are joined, `3090+4090`; text, budget and what all share are those of the first.

    Raises ArchError for devices that do not join.
    """

    cards: tuple[KnownDevice, ...] = ()

    def __post_init__(self) -> None:
        for card in self.cards:
            kind, family = card.budget.kind, card.memory.family
            if kind != "gpu" or family != "gpu":
                others = " and ".join(dict.fromkeys(it.budget.name for it in self.cards if it is not card))
                what = f"{card.budget.name} and {others} do not join: only cards of one machine share layers"
                raise ArchError(what, f"each alone, --device {card.budget.name}")
        if self.machines.nodes not in {None, 1}:
            what = f"--nodes {self.machines.nodes} spreads equal devices, and {self.memory.name} are unlike"
            raise ArchError(what, "leave --nodes out")

    @cached_property
    def memory(self) -> DeviceMemory:
        """The memories of all; their mean is that of each."""
        cards = [card.memory for card in self.cards]
        counted = [(name, len([*alike])) for name, alike in groupby(card.name for card in cards)]
        name = " + ".join(name if n == 1 else f"{n} x {name}" for name, n in counted)
        mean, unlike = sum(card.memory_bytes for card in cards) // len(cards), tuple(cards)
        return cards[0]._replace(name=name, memory_bytes=mean, n_devices=len(cards), unlike=unlike)

    @cached_property
    def timed(self) -> PredictedDevice:
        """All devices with their peaks, links and constants. Raises ArchError as of each."""
        return self._joined([card.timed for card in self.cards])

    def run_by(
        self, engine: InferenceEngine, utilization: float | None, model: Model, chunk: int | None = None
    ) -> PredictedDevice:
        """All devices with the parts that an engine takes."""
        return self._joined([card.run_by(engine, utilization, model, chunk) for card in self.cards])._replace(
            memory=self.memory.taken_by(engine, utilization)
        )

    def _joined(self, cards: list[PredictedDevice]) -> PredictedDevice:
        """The first device with the times of all."""
        timing = cards[0].timing._replace(unlike=tuple(card.timing for card in cards))
        return cards[0]._replace(timing=timing, memory=self.memory)


def known_device(
    device: str,
    calibrations: Sequence[Path] = (),
    machines: Machines = ONE_BY_FILE,
    free: str | int | None = None,
) -> KnownDevice:
    """The device of `[N×]NAME`, or `local`. Raises ArchError for a name that means none."""
    known = device_or_memory(device, None, machines, free)
    if known is None:
        raise ArchError("--device names no device", "such as 8xh100-sxm, or local")
    return replace(known, calibrations=tuple(calibrations))


def device_or_memory(
    device: str | None,
    memory: str | int | None,
    machines: Machines = ONE_BY_FILE,
    free: str | int | None = None,
) -> KnownDevice | None:
    """The device of `[N×]NAME`, or a memory such as 80GiB; None where neither is given.

    Raises ArchError for both, for what they cannot mean, and for more `free` memory than there is.
    """
    if device is None and memory is None:
        if free is not None:
            raise ArchError("--free is what a device has left", "name one: --device rtx-4090")
        return None
    device = device and machines.counted(device)
    # reads files, where a device is named
    from archcli.wings.serving.devices.budget import each_of, read_budget, size_of

    names = (device,) if device is None or memory is not None else each_of(device)
    if len(names) > 1:
        if free is not None:
            raise ArchError("--free is of each of equal devices", "state what is free of each: 20GiB+8GiB")
        cards = tuple(known_device(name or "") for name in names)
        return UnlikeDevices(device or "", cards[0].budget, machines=machines, cards=cards)
    device = names[0]
    budget = read_budget(device, memory)
    if budget is None:
        return None
    free_bytes = None if free is None else size_of("--free", free)
    if free_bytes is not None and free_bytes > budget.memory_bytes:
        what = f"--free {free}: {budget.name} has {binary_bytes(budget.memory_bytes)}"
        raise ArchError(what, "what a driver says is free, such as 20GiB")
    return KnownDevice(device or "", budget, machines=machines, free_bytes=free_bytes)


def device_memory(
    device: str | None,
    memory: str | int | None,
    machines: Machines = ONE_BY_FILE,
    free: str | int | None = None,
) -> DeviceMemory | None:
    """The memory of a device, or of --memory; None where neither is given. Raises ArchError as above."""
    known = device_or_memory(device, memory, machines, free)
    return None if known is None else known.memory


def _family(budget: Budget) -> Family:
    """The kind of a device: a processor, a Mac's GPU, or any other."""
    if budget.kind == "cpu":
        return "cpu"
    return "metal" if budget.datasheet is not None and budget.datasheet.vendor == "Apple" else "gpu"


def devices_per_node(figures: Mapping[str, float]) -> int:
    """The number of devices that a link joins: of the datasheet, else 1 without a link, else a board's."""
    if "devices_per_node" in figures:
        return int(figures["devices_per_node"])
    return DEVICES_PER_NODE if "link_gb_s" in figures else 1


def known_gpus() -> tuple[DeviceMemory, ...]:
    """The GPUs of `archcli devices` that are sold alone; of those that memory cannot tell apart, one.

    It is the one that lines of pictures name, or has the shortest name.
    """
    from archcli.wings.serving.api.known_device.listed import listed_devices  # reads the index
    from archcli.wings.serving.memory.answers.tables import USUAL_DEVICES

    alone = [device for device in listed_devices() if device.kind == "gpu" and device.is_sold_alone]
    gpus: dict[tuple[object, ...], DeviceMemory] = {}
    for device in sorted(alone, key=lambda known: (known.name not in USUAL_DEVICES, len(known.name))):
        size = int(device.figures["memory_bytes"])
        facts = (size, 1, device.architecture, device.certainty, device.source)
        gpu = DeviceMemory(device.name, *facts, per_node=devices_per_node(device.figures))
        gpus.setdefault((size, device.architecture, device.link), gpu)
    return tuple(sorted(gpus.values(), key=lambda gpu: gpu.name))


def _of_datasheet(sheet: Datasheet, memory: DeviceMemory) -> PredictedDevice:
    """The device of a datasheet with the constants of its file, its own or lent."""
    from archcli.wings.serving.devices.line import is_line
    from archcli.wings.serving.predict.answers.question import PredictedDevice
    from archcli.wings.serving.predict.communication.collective import Fabric
    from archcli.wings.serving.predict.constants import Efficiency, Rates
    from archcli.wings.serving.predict.rank.rank_times import TimingDevice
    from archcli.wings.serving.predict.times import KernelClock

    figures = {name: figure.value for name, figure in sheet.figures.items()}
    of_sheet = Rates.of(memory.name, figures)
    if is_line(sheet.name) and not of_sheet.peaks:
        # a line without rates has the limit of its memory alone
        of_sheet = of_sheet._replace(peaks=dict.fromkeys(("bf16", "fp16", "tf32", "fp32"), inf))
    clock = KernelClock(of_sheet, Efficiency(sheet.efficiency))
    fabric = Fabric(memory.name, figures.get("link_gb_s"), figures.get("network_gb_s"))
    rates: Rates = clock.rates

    @cache
    def kernels_of(engine: str) -> EngineClock | None:
        from archcli.wings.serving.api.known_device.lenders import engine_clock  # of served models alone

        return engine_clock(engine, sheet, rates)

    return PredictedDevice(TimingDevice(clock, fabric), memory, figures.get("tdp_w"), kernels_of=kernels_of)
