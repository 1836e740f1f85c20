"""Kernels: what torch launches as one, with its FLOPs, the bytes that it moves, and its number type."""

from __future__ import annotations

from typing import Literal, NamedTuple

Stage = Literal["forward", "backward", "sums"]
"""`sums` are the additions by which autograd accumulates gradients of a tensor that was used twice."""


class KernelCost(NamedTuple):
    """One launch: torch's name of it, FLOPs, bytes read and written, and the number type it computes in."""

    name: str
    flops: int
    read: int
    written: int
    dtype: str

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written


class KernelRun(NamedTuple):
    """A kernel of an operation of the architecture: its path, the class that time is summed by, how often.

    `op_class` is one of those of a profile (`archcli.recording.classes`).
    """

    path: str
    stage: Stage
    kernel: KernelCost
    op_class: str
    times: int
