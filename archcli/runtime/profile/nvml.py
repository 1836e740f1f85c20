"""The state of a GPU by NVML: clocks, power, temperature, reasons of a lowered clock.

It is read through torch and the module pynvml (package nvidia-ml-py); what is missing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

MEMORY_CLOCK = 2  # NVML_CLOCK_MEM
REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Reasons of a clock below the requested one (NVML API reference, nvmlClocksEventReasons), except idling."""


def gpu_state(device: str) -> dict[str, Any] | None:
    """sm_clock_mhz, memory_clock_mhz, power_w, temperature_c, slowed_by, as far as they can be read.

    None on a CPU and without pynvml.
    """
    if not device.startswith("cuda"):
        return None
    try:
        nvml = import_module("pynvml")
    except ModuleNotFoundError:
        return None
    place = torch.device(device)
    return dict(_read(dict(_readings(nvml, place)), nvml.NVMLError)) or None


def _readings(nvml: Any, place: torch.device) -> Iterator[tuple[str, Callable[[], Any]]]:
    def handle() -> Any:
        nvml.nvmlInit()
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(place).uuid}")

    yield "sm_clock_mhz", lambda: torch.cuda.clock_rate(place)
    yield "memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle(), MEMORY_CLOCK)
    yield "power_w", lambda: torch.cuda.power_draw(place) / 1e3  # it says milliwatts
    yield "temperature_c", lambda: torch.cuda.temperature(place)
    yield "slowed_by", lambda: _reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle()))


def _read(readings: dict[str, Callable[[], Any]], error: type[Exception]) -> Iterator[tuple[str, Any]]:
    """The figures that this card, its driver and this release of NVML support."""
    for name, read in readings.items():
        try:
            yield name, read()
        except (error, RuntimeError, AttributeError, ModuleNotFoundError):
            continue


def _reasons(bits: int) -> list[str]:
    return [what for bit, what in REASONS.items() if bits & bit]
