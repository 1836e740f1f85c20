"""The framework's part of a pass: what Python and the allocator do between one operation and the next.

It is host time: once for each call of an operation, and more where the call writes much, since the memory of
large tensors is taken from the operating system and given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from archcli.kernels import KernelCost

FRAMEWORK, TRAINING_FRAMEWORK = "framework", "training_framework"


class LaunchedKernel(Protocol):
    """A kernel of an operation: the operation's path and stage, and how often it runs."""

    @property
    def path(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def kernel(self) -> KernelCost: ...
    @property
    def times(self) -> float: ...


class OperationCalls(NamedTuple):
    """How often an operation is called; a call is a kernel that computes nothing and writes its results."""

    path: str
    stage: str
    kernel: KernelCost
    times: float


def operation_calls(kernels: Iterable[LaunchedKernel], phase: str) -> Iterator[OperationCalls]:
    """The calls of every operation; a kernel that runs several times in a call is no call of its own."""
    name = TRAINING_FRAMEWORK if phase == "train" else FRAMEWORK
    calls: dict[tuple[str, str], tuple[float, float]] = {}
    for one in kernels:
        times, written = calls.get((one.path, one.stage), (one.times, 0.0))
        calls[one.path, one.stage] = min(times, one.times), written + one.times * one.kernel.written
    for (path, stage), (times, written) in calls.items():
        yield OperationCalls(path, stage, KernelCost(name, 0, 0, round(written / times), "fp32"), times)
