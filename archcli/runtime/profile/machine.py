"""The settings of torch and the process that a measurement depends on, and how they are restored."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from archcli.recording.machine import processor

PRODUCTS = {"highest": "in fp32", "high": "in TF32", "medium": "in TF32"}
"""What a GPU multiplies fp32 matrices in, by torch's name for how exact that is."""


def machine(device: str) -> dict[str, Any]:
    """Settings of machine and torch that the figures depend on: versions, threads, processor."""
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
    """Return freed memory to the system, though glibc is set to keep large blocks."""
    gc.collect()
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
    os.environ["KINETO_LOG_LEVEL"] = before or "6"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]
