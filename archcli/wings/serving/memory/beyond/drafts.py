"""HeldDraft: the weights and the cache of a draft beside a model that is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from archcli.modules import Model
from archcli.units import binary_bytes
from archcli.wings.serving.memory.parts.beside import RankBytes
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.ranks import RankPeak, rank_peaks
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel


def draft_plan(plan: Plan, model: Model, settings: MemorySettings) -> Plan:
    """The plan of a draft: the target's ranks share it where they can; else each has it whole.

    Of a pipeline it is on the last stage.
    """
    shared = replace(plan, pp=1, micro_batches=1, virtual_stages=1, schedule="1f1b")
    return shared if shared.suits(model, settings) else Plan(dp=plan.dp)


class DraftBytes(NamedTuple):
    """Bytes of a draft on a device of the last stage."""

    weights: int
    cache: int


@dataclass(frozen=True, slots=True)
class HeldDraft:
    """A draft beside a model: its name, and what of it is not the target's.

    `settings` are those of the draft asked alone, of which the engine, the dtypes and the backend count.
    """

    name: str
    model: Model
    settings: MemorySettings
    known: TracedModel = field(compare=False, repr=False)

    def bytes(self, target: Model, settings: MemorySettings, plan: Plan) -> DraftBytes:
        """What a device holds of it, for the sequences and tokens of the target."""
        mine = self.of_target(target, settings)
        shared = draft_plan(plan, self.model, mine)
        peaks = self.known.once(("ranks", mine, shared), lambda: rank_peaks(self.known, mine, shared))
        most = max((rank.peak for rank in peaks), key=lambda peak: peak.bytes)
        return DraftBytes(int(most.weights), int(most.cache))

    def of_target(self, target: Model, settings: MemorySettings) -> MemorySettings:
        """The draft's settings with the target's sequences and tokens."""
        sizes = {name: getattr(settings, name) for name in ("phase", "batch_size", "new", "past")}
        return replace(self.settings, seq_len=settings.tokens(target), split=(), **sizes)

    def beside_ranks(
        self, ranks: list[RankPeak], target: Model, settings: MemorySettings, plan: Plan
    ) -> list[RankPeak]:
        """The ranks; those of the last stage hold the draft."""
        size, last = sum(self.bytes(target, settings, plan)), max(rank.stage for rank in ranks)

        def held(rank: RankPeak) -> RankPeak:
            return rank.changed(lambda moment: moment._replace(draft=size)) if rank.stage == last else rank

        return [held(rank) for rank in ranks]

    def added(
        self, ranks: list[tuple[int, RankBytes]], target: Model, settings: MemorySettings, plan: Plan
    ) -> list[tuple[int, RankBytes]]:
        """The same of bytes that were counted without the draft."""
        size, last = sum(self.bytes(target, settings, plan)), max(rank.stage for _, rank in ranks)
        return [(known + size * (rank.stage == last), rank) for known, rank in ranks]

    def totals(self, target: Model, settings: MemorySettings, plan: Plan) -> dict[str, Any]:
        """Its bytes by JSON's keys."""
        size = self.bytes(target, settings, plan)
        return {"name": self.name, "weights_bytes": size.weights, "cache_bytes": size.cache}


def draft_note(totals: Mapping[str, Any]) -> str:
    """The bytes of a draft in words."""
    weights, cache = (binary_bytes(totals[name]) for name in ("weights_bytes", "cache_bytes"))
    return f"The draft {totals['name']} takes {weights} of weights and {cache} of cache beside the model."
