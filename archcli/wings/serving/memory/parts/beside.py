"""The bytes that serving needs, from what was counted already: weights, and all else at a context.

On each rank the weights are the same at any context, and all else is the same in any format of the weights
and on any device of an architecture. So formats x contexts x devices take a pass for each context alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import NamedTuple

from archcli.arith import Number, is_whole
from archcli.modules import Model
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel


class Needed(NamedTuple):
    """The largest rank: its stage, and its bytes without and with what is beyond the model."""

    stage: int
    peak_bytes: int
    needed_bytes: int

    def device_of(self, device: DeviceMemory) -> DeviceMemory:
        """The device of the rank."""
        return device.of_stage(self.stage)

    def lacking(self, device: DeviceMemory | None) -> int:
        """Bytes missing on its device; negative where bytes are left."""
        return self.needed_bytes - (0 if device is None else self.device_of(device).memory_bytes)

    def fits(self, device: DeviceMemory | None) -> bool:
        """Whether it fits into a device."""
        return self.lacking(device) <= 0


class RankBytes(NamedTuple):
    """A rank of a stage: its weights, all else at the peak, and bytes beyond the model."""

    stage: int
    rank: int
    weights: Number
    bytes: int
    beyond: int


def is_summed(settings: MemorySettings, model: Model) -> bool:
    """Whether a peak is that of weights and all else apart: in serving without an offload and towers."""
    sizes = settings.seq_len, settings.batch_size
    is_served = settings.served and settings.phase == "serve" and settings.offload is None
    return is_served and not model.towers and all(map(is_whole, sizes))


def summed(
    known: TracedModel,
    settings: MemorySettings,
    plan: Plan,
    device: DeviceMemory | None,
    counted: Iterable[RankBytes],
) -> Needed:
    """The largest rank; where its weights or a context are new, of the ranks that are `counted`."""
    key: tuple[Hashable, ...] = replace(settings, seq_len=None), plan
    held: list[Number] = known.once(("held", *key), list)
    architecture, tokens = device.architecture if device else "", settings.seq_len
    contexts: dict[Number, list[RankBytes]] = known.passed(("beside", *key, architecture), dict)
    if not held or tokens not in contexts:
        contexts[tokens] = sorted(counted, key=lambda it: (it.stage, it.rank))
        held[:] = [rank.weights for rank in contexts[tokens]]
    there = [card.memory_bytes for card in device.unlike] if device else []
    every = [(weights + rank.bytes, rank) for weights, rank in zip(held, contexts[tokens], strict=True)]
    size, rank = max(every, key=lambda it: it[0] - (there[it[1].stage] if there else 0))
    return Needed(rank.stage, int(size), int(size) + rank.beyond)
