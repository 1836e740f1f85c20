"""Collective: an operation by which the ranks of a plan exchange tensors, and what each sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from archcli.arith import Number
from archcli.measure.predict.communication.groups import GroupOfRanks

CollectiveName = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
Purpose = Literal["tensor", "experts", "weights", "gradients", "stages", "context"]
"""What is exchanged: activations of split matrices, tokens for experts, weights, and so on."""
Cover = Literal["", "forward", "backward", "compute", "attention"]
"""The compute that may run meanwhile; empty where the next operation waits for the result."""

Moment = Literal["forward", "backward", "step"]
"""When it runs; `step` is behind the backward of the last micro batch."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One kind of exchange in a step or a pass of one rank, of all the times that it occurs.

    `bytes` are what the rank sends in all of them together, over a ring where that is how it is done: 2 (n -
    1) / n of the tensor in an all-reduce among n ranks, (n - 1) / n of the whole in a gather, a scatter or an
    all-to-all.
    """

    name: CollectiveName
    purpose: Purpose
    group: GroupOfRanks
    bytes: Number
    times: Number
    stage: Moment = "forward"
    cover: Cover = ""

    def scaled(self, times: Number) -> Collective:
        """So many of it."""
        return replace(self, bytes=times * self.bytes, times=times * self.times)


def merged(collectives: Iterable[Collective]) -> tuple[Collective, ...]:
    """The collectives, those alike together."""
    alike: dict[Collective, list[Collective]] = {}
    for one in collectives:
        alike.setdefault(replace(one, bytes=0, times=0), []).append(one)
    return tuple(
        replace(kind, bytes=sum(one.bytes for one in ones), times=sum(one.times for one in ones))
        for kind, ones in alike.items()
    )
