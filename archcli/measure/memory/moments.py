"""Moments of a pass or a step: what is in memory, by purpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from archcli.arith import Number, maximum

PARTS = ("weights", "gradients", "optimizer", "kept", "loss", "gathered", "temporaries", "cache")
"""Purposes of memory, in the order in which a report lists them."""


class MemoryMoment(NamedTuple):
    """Bytes in memory at one moment: of a stage (forward, loss, backward, …), while an operation runs.

    `kept` is what the forward keeps for the backward, `gathered` what a rank holds of other ranks' shares,
    `temporaries` activations and their gradients on their way.
    """

    stage: str
    path: str
    weights: Number = 0
    gradients: Number = 0
    optimizer: Number = 0
    kept: Number = 0
    loss: Number = 0
    gathered: Number = 0
    temporaries: Number = 0
    cache: Number = 0

    @property
    def bytes(self) -> Number:
        """Bytes of all parts."""
        return sum(self[2:], 0)

    @property
    def parts(self) -> dict[str, Number]:
        """Bytes by purpose."""
        return {name: getattr(self, name) for name in PARTS}


def highest(moments: Iterable[MemoryMoment]) -> MemoryMoment:
    """The moment with the most bytes, the first of several."""
    return max(moments, key=lambda moment: moment.bytes)


def peak_bytes(moments: Iterable[MemoryMoment]) -> Number:
    """The most bytes of any moment; element by element for arrays."""
    peak: Number = 0
    for moment in moments:
        peak = maximum(peak, moment.bytes)
    return peak
