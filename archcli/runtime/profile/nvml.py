"""What NVIDIA's management library says of a GPU at the moment: clocks, power, temperature, and what holds its clock down.

It is read through torch and the module pynvml (package nvidia-ml-py); where that or a figure is missing, it is left out.
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
"""Bits that say the clock is below what was asked for (NVML API reference, nvmlClocksEventReasons); being idle is none of them."""


def gpu_state(device: str) -> dict[str, Any] | None:
    """sm_clock_mhz, memory_clock_mhz, power_w, temperature_c, slowed_by: those that can be read now; None on a CPU and without pynvml."""
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
    """Every figure that this card, its driver and the library's release know of."""
    for name, read in readings.items():
        try:
            yield name, read()
        except (error, RuntimeError, AttributeError, ModuleNotFoundError):
            continue


def _reasons(bits: int) -> list[str]:
    return [what for bit, what in REASONS.items() if bits & bit]
