"""MemoryQuestion: a model, its settings, its plan and the device, asked together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from archcli.measure.memory.beyond import BeyondModel, beyond_model
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.ranks import RankPeak, rank_peaks
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.traced import TracedModel
from archcli.modules import Model


class DeviceMemory(NamedTuple):
    """A device to fit into: its bytes, how many there are, how certain that is (A, B, C) and the source.

    `stated` says that it is an amount of memory by itself, such as 80GiB.
    """

    name: str
    memory_bytes: int
    n_devices: int = 1
    architecture: str = ""
    certainty: str = ""
    source: str = ""
    stated: bool = False


ONE_DEVICE = Plan()
Fit = Literal["batch", "context", "recompute", "devices"]
"""What is to be found that fits into a device."""


class MemoryAnswer(NamedTuple):
    """The peaks of a plan's ranks, the largest first, and what its device holds beyond the model."""

    ranks: tuple[RankPeak, ...]
    beyond: BeyondModel

    @property
    def largest(self) -> RankPeak:
        """The rank with the most bytes at its peak."""
        return self.ranks[0]

    @property
    def peak_bytes(self) -> int:
        """Bytes at the peak of the largest rank, without what is beyond the model."""
        return int(self.largest.peak.bytes)

    @property
    def needed_bytes(self) -> int:
        """Bytes that a device must have: the peak and what is beyond the model, at its upper end."""
        return self.peak_bytes + self.beyond.bytes


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """What is asked: how much memory a model takes with these settings and this plan.

    `known` is what is traced of the model; questions that are `changed` from one share it.
    """

    model: Model
    settings: MemorySettings
    plan: Plan = ONE_DEVICE
    device: DeviceMemory | None = None
    known: TracedModel | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.known is None or self.known.model is not self.model:
            object.__setattr__(self, "known", TracedModel(self.model))

    def answer(self) -> MemoryAnswer:
        """Trace the passes. Raises ArchError for settings or a plan that the model cannot have."""
        return self.answer_with(self.ranks())

    def ranks(self) -> tuple[RankPeak, ...]:
        """The peaks of the plan's ranks, the largest first, on whatever device."""
        peaks = rank_peaks(self.known or TracedModel(self.model), self.settings, self.plan)
        return tuple(sorted(peaks, key=lambda rank: rank.peak.bytes, reverse=True))

    def answer_with(self, ranks: tuple[RankPeak, ...]) -> MemoryAnswer:
        """The answer, of ranks that are traced already."""
        beyond = beyond_model(
            self.settings.backend,
            self.device.architecture if self.device else "",
            training=self.settings.phase == "train",
            n_devices=self.plan.devices,
            n_storages=_storages(ranks[0]),
        )
        return MemoryAnswer(ranks, beyond)

    def fits(self) -> bool:
        """Whether it fits into the device; there must be one."""
        return self.device is not None and self.answer().needed_bytes <= self.device.memory_bytes

    def changed(self, **settings: Any) -> MemoryQuestion:
        """The same with other settings."""
        return replace(self, settings=replace(self.settings, **settings))


def _storages(rank: RankPeak) -> int:
    """How many storages are alive at a peak: weights, gradients and states, and what is kept."""
    traced = rank.traced
    tensors = sum(len(row.weights) * int(row.copies) for row in traced.rows)
    per_weight = 4 if traced.execution.records else 1
    return per_weight * tensors + sum(int(s.record.times) for s in traced.ledger.saved.values())
