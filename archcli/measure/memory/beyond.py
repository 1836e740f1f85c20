"""Bytes of a device beyond the model: CUDA context, NCCL, cuBLAS workspaces, allocator rounding.

None of them follows from the model's architecture, and none is part of an exact total. A workspace is what
torch asks for, rounding an upper bound; the context and NCCL are ranges, with what was measured elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

Value = TypeVar("Value")

MIB = 2**20

CONTEXT = (300_000_000, 500_000_000)
CONTEXT_SOURCE = (
    "range; the driver, and kernels that are loaded lazily since CUDA 11.7: 300 MB (pytorch/pytorch#107667), "
    "400 MB (pytorch/pytorch#109888), more with more libraries"
)
NCCL = (360_000_000, 410_000_000)
NCCL_SOURCE = (
    "estimate for one communicator; it grows with communicators and channels (NVIDIA/nccl#864): 544 to 688 "
    "MB each on 4 A100 (NVIDIA/nccl#964), 3.3 GB more for all-to-all on 8 H100 (NVIDIA/nccl#1685)"
)

WORKSPACES = {
    "sm_9": 8 * 4096 * 1024,
    "sm_10": 8 * 4096 * 1024,
    "sm_12": 8 * 4096 * 1024,
    "sm_": 2 * 4096 * 1024 + 8 * 16 * 1024,
    "gfx94": (128 + 76) * MIB,
    "gfx95": (128 + 76) * MIB,
    "gfx": (32 + 76) * MIB,
    "": 8 * 4096 * 1024,
}
"""Bytes of one workspace of cuBLAS by the beginning of the architecture; unknown is as Hopper, the larger.

The formats are those of CUBLAS_WORKSPACE_CONFIG, KiB by count: :4096:8 and :4096:2:16:8. cuBLASLt shares
it; on AMD's, hipBLASLt has another of 76 MiB.
"""
WORKSPACE_SOURCE = (
    "torch's defaults in ATen/cuda/CublasHandlePool.cpp: CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8, 32 MiB on "
    "Hopper and Blackwell, more on AMD's; one for each thread and stream that multiplies"
)

LABELS = {
    "gfx": ("HIP context", "RCCL", "hipBLAS workspaces"),
    "": ("CUDA context", "NCCL", "cuBLAS workspaces"),
}
"""What the libraries are called, by the beginning of the architecture."""

ROUNDING = 512
"""Bytes that torch's caching allocator rounds a block up to (kMinBlockSize of c10/cuda)."""
ROUNDING_SOURCE = (
    "c10/cuda/CUDACachingAllocator.cpp: each storage takes a multiple of 512 bytes, so at most 511 more; its "
    "segments of 2 MiB (blocks up to 1 MiB), 20 MiB (up to 10) or a multiple of 2 MiB may stay partly "
    "empty, which is not counted"
)


class Overhead(NamedTuple):
    """A part of the memory beyond the model: its label, bytes, the least of them, and a source."""

    label: str
    bytes: int
    least_bytes: int
    source: str


class BeyondModel(NamedTuple):
    """What one device holds beyond the model, part by part. `bytes` adds the upper ends."""

    parts: tuple[Overhead, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all parts together, each at its upper end."""
        return sum(part.bytes for part in self.parts)

    @property
    def least_bytes(self) -> int:
        """Bytes of all parts together, each at its lower end."""
        return sum(part.least_bytes for part in self.parts)


def workspace_bytes(architecture: str) -> int:
    """Bytes of one cuBLAS workspace on an architecture such as sm_90 or gfx942, as torch allocates it."""
    return _by_start(WORKSPACES, architecture)


def beyond_model(
    backend: str = "cuda",
    architecture: str = "",
    *,
    training: bool,
    n_devices: int = 1,
    n_storages: int = 0,
) -> BeyondModel:
    """What a device holds beyond the model: nothing on the backend cpu.

    `n_storages` are those that live at the peak. A training step multiplies on two threads, the program's and
    autograd's, each with a workspace of its own.
    """
    if backend == "cpu":
        return BeyondModel(())
    context, communicator, blas = _by_start(LABELS, architecture)
    workspaces = workspace_bytes(architecture) * (2 if training else 1)
    return BeyondModel(
        (
            Overhead(context, CONTEXT[1], CONTEXT[0], CONTEXT_SOURCE),
            *((Overhead(communicator, NCCL[1], NCCL[0], NCCL_SOURCE),) if n_devices > 1 else ()),
            Overhead(blas, workspaces, workspaces, WORKSPACE_SOURCE),
            Overhead("allocator rounding", (ROUNDING - 1) * n_storages, 0, ROUNDING_SOURCE),
        )
    )


def _by_start(table: Mapping[str, Value], architecture: str) -> Value:
    """The entry of the longest key that the architecture begins with."""
    return table[max((start for start in table if architecture.startswith(start)), key=len)]
