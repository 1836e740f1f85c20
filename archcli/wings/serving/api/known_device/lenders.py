"""The kernels of the engine that --engine names, on the device that --device names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import inf, log
from typing import TYPE_CHECKING, Any

from archcli.wings.serving.devices.engines import kernel_entries, measured_devices
from archcli.wings.serving.predict.engine_kernels.choice import PROCESSORS, NamedDevice, generation, lender
from archcli.wings.serving.predict.engine_kernels.clock import EngineClock, EngineTable
from archcli.wings.serving.predict.engine_kernels.terms import KernelDevice

if TYPE_CHECKING:
    from archcli.wings.serving.devices.datasheet import Datasheet
    from archcli.wings.serving.devices.efficiency import Constants
    from archcli.wings.serving.predict.constants import Rates

GIGA, MEGA = 1e9, 1e6
ENGINES_OF_KERNELS = ("vllm", "sglang", "trtllm")
COLLECTIVE = "collective"
"""What the names of operations on a link begin with."""


def engine_clock(engine: str, sheet: Datasheet, rates: Rates) -> EngineClock | None:
    """The kernels of an engine on a device: its own, or those of the nearest device of its generation.

    None where no device of the generation was measured. Collectives are those of a device whose link is of
    the same kind: what NVLink reaches says nothing of PCIe.
    """
    name = sheet.name.partition(":")[0]
    bandwidth = sheet.figures.get("bandwidth_gb_s")
    rate = bandwidth and bandwidth.value
    source = _lender(engine, NamedDevice(name, sheet.architecture, rate or 0.0), sheet.same_chip)
    if source is None:
        return None
    figures = {key: figure.value for key, figure in sheet.figures.items()}
    linked = partial(_linked, engine, source, "" if source == name else sheet.link, figures.get("link_gb_s"))

    def tables() -> Iterator[EngineTable]:
        borrowed = source != name
        yield EngineTable(partial(_entries, engine, source, linked), borrowed)
        for lender_engine in ENGINES_OF_KERNELS:
            if lender_engine != engine:
                yield EngineTable(partial(_entries, lender_engine, source, linked), borrowed=True)

    return EngineClock(
        engine,
        tables,
        rates.peaks,
        KernelDevice(
            0.0,
            rates.bandwidth,
            figures.get("l2_mb", 0) * MEGA,
            PROCESSORS.get(name) or _processors(source, rates),
            figures.get("link_gb_s", inf) * GIGA,
        ),
        "" if source == name else source,
        *_lent_products(name, sheet),
        linked,
    )


def _entries(engine: str, source: str, linked: Callable[[], str], operation: str) -> Sequence[Any]:
    """The constants of an operation: of `linked`, if there is one, for what is sent over a link."""
    of_link = linked() if operation.startswith(COLLECTIVE) else ""
    return kernel_entries(engine, of_link or source, operation)


@cache
def _linked(engine: str, source: str, link: str, rate: float | None) -> str:
    """The measured device whose collectives a device gets that borrows all else from `source`.

    It is the one whose rate is nearest of those with a link of the same kind; empty where `source` has such a
    link, or none has.
    """
    from archcli.wings.serving.devices.datasheet import load_datasheet  # of devices that borrow alone

    def kind(of: str) -> str:
        return of.partition(" ")[0]

    if not link or rate is None or kind(load_datasheet(source).link) == kind(link):
        return ""
    known = [load_datasheet(device) for device in measured_devices(engine)]
    alike = {it.name: it.figures["link_gb_s"].value for it in known if kind(it.link) == kind(link)}
    return min(alike, key=lambda device: abs(log(alike[device] / rate)), default="")


def _lent_products(name: str, sheet: Datasheet) -> tuple[Constants | None, str]:
    """Constants of kernels that are no engine's, for a device without any: of the nearest measured one."""
    if sheet.efficiency:
        return None, ""
    from archcli.wings.serving.devices.datasheet import (  # of devices that borrow alone
        fitted_devices,
        load_datasheet,
    )
    from archcli.wings.serving.devices.efficiency import borrowed

    wanted = generation(sheet.architecture)
    known = [
        device for device, architecture in fitted_devices().items() if generation(architecture) == wanted
    ]
    bandwidth = sheet.figures["bandwidth_gb_s"].value
    lending = lender(NamedDevice(name, sheet.architecture, bandwidth), map(_named, known))
    if lending is None:
        return None, ""
    theirs = load_datasheet(lending.name)
    return borrowed(theirs.efficiency, theirs.name, same_link=theirs.link == sheet.link), lending.name


@cache
def _lender(engine: str, device: NamedDevice, same_chip: str) -> str | None:
    """The measured device whose constants a device gets: itself, that of its chip, or of its generation."""
    measured = measured_devices(engine)
    for chip in (device.name, same_chip):
        if chip in measured:
            return chip
    if not device.architecture or not device.bandwidth:
        return None
    lending = lender(device, map(_named, measured))
    return lending and lending.name


def _named(name: str) -> NamedDevice:
    from archcli.wings.serving.devices.datasheet import load_datasheet  # of devices that borrow alone

    sheet = load_datasheet(name)
    return NamedDevice(name, sheet.architecture, sheet.figures["bandwidth_gb_s"].value)


def _processors(source: str, rates: Rates) -> float:
    """Multiprocessors of a device that states none: as many more as its peak is higher than the lender's."""
    from archcli.wings.serving.devices.datasheet import load_datasheet  # of devices that borrow alone

    peak, theirs = rates.peaks.get("bf16"), load_datasheet(source).figures.get("bf16_tflops")
    return PROCESSORS[source] * (peak / (theirs.value * 1e12) if peak and theirs else 1)
