"""The kernels of the engine that --engine names, on the device that --device names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from archcli.load.devices.engines import kernel_entries, measured_devices
from archcli.measure.predict.engine_kernels.choice import PROCESSORS, NamedDevice, lender
from archcli.measure.predict.engine_kernels.clock import EngineClock, EngineTable
from archcli.measure.predict.engine_kernels.terms import KernelDevice

if TYPE_CHECKING:
    from archcli.load.devices.datasheet import Datasheet
    from archcli.load.devices.efficiency import Constants
    from archcli.measure.predict.constants import Rates

GIGA, MEGA = 1e9, 1e6
ENGINES_OF_KERNELS = ("vllm", "sglang", "trtllm")


def engine_clock(engine: str, sheet: Datasheet, rates: Rates) -> EngineClock | None:
    """The kernels of an engine on a device: its own, or those of the nearest device of its generation.

    None where no device of the generation was measured.
    """
    name = sheet.name.partition(":")[0]
    source = _lender(engine, name, sheet)
    if source is None:
        return None
    figures = {key: figure.value for key, figure in sheet.figures.items()}

    def tables() -> Iterator[EngineTable]:
        borrowed = source != name
        yield EngineTable(partial(kernel_entries, engine, source), borrowed)
        for other in ENGINES_OF_KERNELS:
            if other != engine:
                yield EngineTable(partial(kernel_entries, other, source), borrowed=True)

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
        *_lent_products(engine, name, sheet),
    )


def _lent_products(engine: str, name: str, sheet: Datasheet) -> tuple[Constants | None, str]:
    """Constants of kernels that are no engine's, for a device without any: of the nearest measured one."""
    if sheet.efficiency:
        return None, ""
    from archcli.load.devices.datasheet import load_datasheet  # of devices that borrow alone
    from archcli.load.devices.efficiency import borrowed

    known = [one for one in measured_devices(engine) if load_datasheet(one).efficiency]
    bandwidth = sheet.figures["bandwidth_gb_s"].value
    found = lender(NamedDevice(name, sheet.architecture, bandwidth), map(_named, known))
    if found is None:
        return None, ""
    theirs = load_datasheet(found.name)
    return borrowed(theirs.efficiency, theirs.name, same_link=theirs.link == sheet.link), found.name


def _lender(engine: str, name: str, sheet: Datasheet) -> str | None:
    """The measured device whose constants a device gets: itself, that of its chip, or of its generation."""
    measured = measured_devices(engine)
    for own in (name, sheet.same_chip):
        if own in measured:
            return own
    bandwidth = sheet.figures.get("bandwidth_gb_s")
    if not sheet.architecture or bandwidth is None:
        return None
    found = lender(NamedDevice(name, sheet.architecture, bandwidth.value), map(_named, measured))
    return found and found.name


def _named(name: str) -> NamedDevice:
    from archcli.load.devices.datasheet import load_datasheet  # of devices that borrow alone

    sheet = load_datasheet(name)
    return NamedDevice(name, sheet.architecture, sheet.figures["bandwidth_gb_s"].value)


def _processors(source: str, rates: Rates) -> float:
    """Multiprocessors of a device that states none: as many more as its peak is higher than the lender's."""
    from archcli.load.devices.datasheet import load_datasheet  # of devices that borrow alone

    peak, theirs = rates.peaks.get("bf16"), load_datasheet(source).figures.get("bf16_tflops")
    return PROCESSORS[source] * (peak / (theirs.value * 1e12) if peak and theirs else 1)
