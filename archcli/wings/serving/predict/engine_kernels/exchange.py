"""Collectives of an engine within a node: all-reduces in one shot or two, whichever is the faster.

In one shot each rank sends its whole message to all others and sums the received ones: one hop, and bytes of
all ranks. In two each rank sums a part and shares the sum, or the switch sums: more hops, fewer bytes.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from archcli.wings.serving.predict.engine_kernels.terms import MICRO, KernelDevice, Size, smaller

NEAR = 2
"""Ranks that are neighbours on every machine; more may share a bus, or sit on two sockets."""


class ExchangeCall(NamedTuple):
    """A collective: its ranks, and the bytes of a rank's message."""

    ranks: Size
    size: Size


class ExchangeConstants(NamedTuple):
    """Constants of a collective.

    call_us: launch, and the first flag seen by a neighbour.
    hop_us: microseconds for each doubling of the ranks beyond two.
    one_shot, two_shot: fractions of the link's rate.
    start_us: launch and flags of two shots.
    far: factor of the time on the link with more than two ranks, which may share a bus.
    crowd: the power of ranks / 4 by which that factor grows.
    """

    call_us: float
    hop_us: float
    one_shot: float
    two_shot: float
    start_us: float = inf
    far: float = 1.0
    crowd: float = 0.0


def exchange_seconds(constants: ExchangeConstants, call: ExchangeCall, device: KernelDevice) -> Size:
    """Seconds of a collective: the faster of one shot and two."""
    beyond = call.ranks > NEAR
    slowed = 1 + beyond * (constants.far * (call.ranks / 4) ** constants.crowd - 1)
    byte = call.size * slowed / device.link
    hops = constants.hop_us * MICRO * _doublings(call.ranks)
    one_shot = constants.call_us * MICRO + hops + (call.ranks - 1) * byte / constants.one_shot
    # a part of the message to and from each other rank
    parts = 2 * (call.ranks - 1) / call.ranks
    two_shot = constants.start_us * MICRO + hops + parts * byte / constants.two_shot
    return smaller(one_shot, two_shot)


def _doublings(ranks: Size) -> Size:
    """log2(ranks / 2)."""
    if isinstance(ranks, int | float):
        from math import log2

        return log2(ranks / NEAR)
    import numpy as np

    return np.log2(ranks / NEAR)
