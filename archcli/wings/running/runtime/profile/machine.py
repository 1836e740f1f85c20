"""Settings and state that a measurement depends on: torch, the process, and a GPU by NVML.

NVML gives clocks, power, temperature and reasons of a lowered clock, through torch and the module pynvml
(package nvidia-ml-py). Readings that fail are left out.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from archcli.wings.serving.recorded.machine import processor

PRODUCTS = {"highest": "in fp32", "high": "in TF32", "medium": "in TF32"}
"""The format in which a GPU multiplies fp32 matrices, by torch's float32_matmul_precision."""


def machine(device: str) -> dict[str, Any]:
    """Settings of machine and torch that affect timings: versions, threads, processor."""
    on_gpu = device.startswith("cuda")
    libraries = [
        name
        for name, there in (("MKL", torch.backends.mkl), ("oneDNN", torch.backends.mkldnn))
        if there.is_available()
    ]
    return {
        "device": device,
        "processor": torch.cuda.get_device_name(device)
        if on_gpu
        else torch.backends.cpu.get_cpu_capability(),
        "CPU": processor() or platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "math library": " + ".join(libraries),
        **(
            {"CUDA": torch.version.cuda, "fp32 products": PRODUCTS[torch.get_float32_matmul_precision()]}
            if on_gpu
            else {}
        ),
        "allocator": "large blocks kept"
        if "MALLOC_MMAP_THRESHOLD_" in os.environ
        else "as the system has it",
    }


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Set torch's intra-op threads within the block; restore them afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def release_memory() -> None:
    """Return freed memory to the system, even if glibc is set to keep large blocks."""
    gc.collect()
    # malloc_trim is a function of glibc, which musl lacks
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch Python's garbage collector off within the block."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def quiet_tracer() -> Iterator[None]:
    """Silence torch's tracer where it starts within the block: it reads its log level only once."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    # a level above all messages of Kineto
    os.environ["KINETO_LOG_LEVEL"] = before or "6"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]


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
        # by UUID: NVML numbers all GPUs, torch only those in CUDA_VISIBLE_DEVICES
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(place).uuid}")

    yield "sm_clock_mhz", lambda: torch.cuda.clock_rate(place)
    yield "memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle(), MEMORY_CLOCK)
    # power_draw is in milliwatts
    yield "power_w", lambda: torch.cuda.power_draw(place) / 1e3
    yield "temperature_c", lambda: torch.cuda.temperature(place)
    yield "slowed_by", lambda: _reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle()))


def _read(readings: dict[str, Callable[[], Any]], error: type[Exception]) -> Iterator[tuple[str, Any]]:
    """The readings that this GPU, its driver and NVML support."""
    for name, read in readings.items():
        try:
            yield name, read()
        except (error, RuntimeError, AttributeError, ModuleNotFoundError):
            continue


def _reasons(bits: int) -> list[str]:
    return [what for bit, what in REASONS.items() if bits & bit]
