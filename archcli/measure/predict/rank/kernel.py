"""RankKernel: a kernel that a rank of a plan runs."""

from __future__ import annotations

from typing import NamedTuple

from archcli.kernels import KernelCost
from archcli.recording.classes import TimeClass

SCORES = "attention_scores"
"""The component of the operations that read queries, keys and values in turn."""


class RankKernel(NamedTuple):
    """A kernel that a rank runs: its row, its class in a profile, and how often in a micro batch.

    `stage` is forward, recomputed, backward, sums, loss or update.
    """

    path: str
    stage: str
    kernel: KernelCost
    op_class: TimeClass
    times: float

    def scaled(self, times: float) -> RankKernel:
        """So many of it."""
        return self._replace(times=times * self.times)
