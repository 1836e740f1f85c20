"""The bytes that serving needs, from what was counted already: weights, and all else at a context.

On each rank the weights are the same at any context, and all else is the same in any format of the weights
and on any device of an architecture. So formats x contexts x devices take a pass for each context alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from operator import attrgetter
from typing import NamedTuple

from archcli.arith import Number, is_whole
from archcli.measure.kvcache.engine import ANY_ENGINE
from archcli.modules import Model
from archcli.wings.serving.memory.plan import ONE_DEVICE, DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel

PUBLISHED = "published"
PADDED = {PUBLISHED, "mxfp4", "mxfp4-moe"}
"""Formats whose matrices an engine may pad."""


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


class SizeLine(NamedTuple):
    """Bytes at contexts from `first` to `last` in steps: at the first, and `more` at the next.

    bend: how many more each step adds than the step before, of biases over all pairs of tokens.
    block: of a cache in pages; so many tokens, or a multiple, take a whole page. 0 for steps alone.
    """

    first: int
    last: int
    step: int
    bytes: int
    more: int
    bend: int = 0
    block: int = 0

    def at(self, tokens: int) -> int | None:
        """Bytes at a context; None where it is none of the line's."""
        steps, rest = divmod(tokens - self.first, self.step)
        if (rest % self.block if self.block else rest) or not self.first <= tokens <= self.last:
            return None
        steps += rest > 0
        return self.bytes + steps * self.more + steps * (steps - 1) // 2 * self.bend


class Contexts(dict[Number, list[RankBytes]]):
    """Ranks by context: those that were counted, and of one device those on recorded lines."""

    def __init__(self, beyond: int = 0, lines: Iterable[Sequence[int]] = ()) -> None:
        super().__init__()
        self._beyond, self._lines = beyond, [SizeLine(*line) for line in lines]

    def at(self, tokens: Number) -> list[RankBytes] | None:
        """The ranks at a context; None where nothing is known."""
        if tokens not in self:
            size = next((size for line in self._lines if (size := line.at(tokens)) is not None), None)
            if size is None:
                return None
            self[tokens] = [RankBytes(0, 0, 0, size, self._beyond)]
        return self[tokens]


at_any_context = attrgetter(*(it.name for it in fields(MemorySettings) if it.name != "seq_len"))
"""All settings but the context."""


def is_summed(settings: MemorySettings, model: Model) -> bool:
    """Whether a peak is that of weights and all else apart: in serving without an offload and towers."""
    sizes = settings.seq_len, settings.batch_size
    is_served = settings.served and settings.phase == "serve" and settings.offload is None
    return is_served and not model.towers and all(map(is_whole, sizes))


class SummedBytes:
    """The bytes of a plan's ranks by context, in one format of the weights; each is counted once.

    `count` counts the ranks at a context: where the weights or that context are new.
    """

    def __init__(self, known: TracedModel, settings: MemorySettings, plan: Plan, workspace: int) -> None:
        key, self._workspace = (at_any_context(settings), plan), workspace
        figures = known.passes.figures if plan == ONE_DEVICE else None
        self._held: list[Number] = known.once(
            ("held", *key), lambda: [] if figures is None else figures.held(known.model, settings)
        )
        self.contexts: Contexts = known.passed(
            ("beside", *key), lambda: Contexts() if figures is None else figures.contexts(settings)
        )
        self._needed: dict[Number, Needed] = {}

    @classmethod
    def of(cls, known: TracedModel, settings: MemorySettings, plan: Plan, workspace: int) -> SummedBytes:
        """The bytes that questions about the same model, settings and plan have counted."""
        key = "summed", at_any_context(settings), plan, workspace
        return known.once(key, lambda: cls(known, settings, plan, workspace))

    def ranks(self, tokens: Number, count: Callable[[], list[RankBytes]]) -> list[tuple[int, RankBytes]]:
        """(bytes at the peak, rank) of each at so many tokens."""
        ranks = self.contexts.at(tokens)
        if not self._held or ranks is None:
            ranks = self.contexts[tokens] = sorted(count(), key=lambda it: (it.stage, it.rank))
            self._held[:] = [rank.weights for rank in ranks]
        return [
            (int(weights + rank.bytes), rank._replace(beyond=rank.beyond + self._workspace))
            for weights, rank in zip(self._held, ranks, strict=True)
        ]

    def needed(self, tokens: Number, count: Callable[[], list[RankBytes]]) -> Needed:
        """The rank with the most bytes, of equal devices."""
        if tokens not in self._needed:
            self._needed[tokens] = largest(self.ranks(tokens, count), None)
        return self._needed[tokens]


def largest(ranks: list[tuple[int, RankBytes]], device: DeviceMemory | None) -> Needed:
    """The rank with the most bytes; of unlike devices that with the fewest bytes left."""
    there = [card.memory_bytes for card in device.unlike] if device else []
    size, rank = max(ranks, key=lambda it: it[0] - (there[it[1].stage] if there else 0))
    return Needed(rank.stage, size, size + rank.beyond)


@dataclass(frozen=True)
class KnownBytes:
    """What is recorded of a model, in place of its passes.

    weights: bytes of all weights by format. in_ram: of those in tables that may stay in RAM, where inference
        needs all weights.
    tables: parameters of these. served: bytes beyond the model and lines, by settings.
    """

    weights: Mapping[str, int]
    in_ram: Mapping[str, int]
    tables: int
    served: Mapping[str, tuple[int, Sequence[Sequence[int]]]]

    def whole(self, model: Model, dtype: str) -> int | None:
        """Bytes of all weights in the model's format; None where they are not recorded."""
        return self.weights.get(format_name(model, dtype))

    def held(self, model: Model, settings: MemorySettings) -> list[Number]:
        """Bytes of the weights that an engine has on a device; nothing where that is not recorded."""
        engine, name = settings.engine or ANY_ENGINE, format_name(model, settings.dtype)
        if name not in self.in_ram or (engine.mxfp4_experts and name in PADDED):
            return []
        return [self.weights[name] - (self.in_ram[name] if engine.in_ram else 0)]

    def contexts(self, settings: MemorySettings) -> Contexts:
        """The lines of the settings, none where nothing is recorded of them."""
        return Contexts(*self.served.get(digest(settings), ()))


def format_name(model: Model, dtype: str) -> str:
    """The name of a model's format; `published` where it is packed in a form without a name."""
    return model.stored_as or (dtype if model.quantization is None else PUBLISHED)


def digest(settings: MemorySettings) -> str:
    """What tells settings at any context apart: the engine with all its facts, the batch, the cache."""
    text = repr(replace(settings, seq_len=None))
    return sha256(text.encode()).hexdigest()[:12]
