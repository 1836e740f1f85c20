"""The GPUs of this machine as the CUDA driver describes them: name, memory, architecture. No torch.

CUDA Driver API, libcuda (https://docs.nvidia.com/cuda/cuda-driver-api/): `cuDeviceTotalMem` is what torch
reports as `total_memory`, and less than `nvidia-smi` shows, by what the driver keeps for itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
LONGEST_NAME = 256
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """A GPU of this machine: its name, bytes of memory in all, and architecture such as sm_90."""

    name: str
    memory_bytes: int
    architecture: str


class _DriverError(Exception):
    """A call that the driver refused."""


def local_gpus(library: Any = None) -> tuple[LocalGpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; none where there is no driver or it does not answer.

    `library` stands for the driver, which is loaded otherwise.
    """
    try:
        return tuple(_gpus(_load() if library is None else library))
    except (OSError, AttributeError, _DriverError):
        return ()


def _load() -> Any:
    return ctypes.CDLL(LIBRARY)


def _gpus(driver: Any) -> Iterator[LocalGpu]:
    _call(driver.cuInit, 0)
    count = ctypes.c_int()
    _call(driver.cuDeviceGetCount, ctypes.byref(count))
    for index in range(count.value):
        device, size = ctypes.c_int(), ctypes.c_size_t()
        name = ctypes.create_string_buffer(LONGEST_NAME)
        _call(driver.cuDeviceGet, ctypes.byref(device), index)
        _call(driver.cuDeviceGetName, name, LONGEST_NAME, device)
        # the name without _v2 is the driver's old one, with sizes of 32 bits
        _call(driver.cuDeviceTotalMem_v2, ctypes.byref(size), device)
        architecture = f"sm_{_attribute(driver, MAJOR, device)}{_attribute(driver, MINOR, device)}"
        yield LocalGpu(name.value.decode(errors="replace"), size.value, architecture)


def _attribute(driver: Any, which: int, device: Any) -> int:
    value = ctypes.c_int()
    _call(driver.cuDeviceGetAttribute, ctypes.byref(value), which, device)
    return value.value


def _call(function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        raise _DriverError
