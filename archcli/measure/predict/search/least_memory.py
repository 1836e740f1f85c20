"""LeastMemory: bytes that a plan needs at least, from what it holds and keeps; no moment is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archcli.arith import Number
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.pipeline import Stage, in_flight, stages_of
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.ranks import distinct_stages, held_bytes
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.shares import PlacedWeight, placed_weights
from archcli.measure.memory.traced import trace_memory
from archcli.measure.memory.training.recompute import recomputed
from archcli.measure.memory.training.step import Held
from archcli.measure.passes import shape_pass
from archcli.measure.predict.rank.placement import StagePlacement
from archcli.measure.predict.search.candidates import Candidate
from archcli.modules import Model
from archcli.modules.models.layers import layer_count

Degrees = tuple[int, bool, int, int]
"""tp, sp, ep and cp."""


class KeptOfLayers(NamedTuple):
    """A tensor kept for the backward: the layers of which each made one such, and the bytes of one."""

    layers: range
    size: Number


@dataclass(slots=True)
class LeastMemory:
    """A lower bound of a training step's peak, quick enough for thousands of plans.

    Of the largest stage: weights, the optimizer's states and what is gathered, with the gradients or with
    what the layers keep for the backward of all micro batches under way; and the optimizer's step. What
    plans share is traced once.
    """

    question: MemoryQuestion
    _shares: dict[Degrees, tuple[Model, tuple[PlacedWeight, ...]]] = field(default_factory=dict)
    _held: dict[Plan, tuple[Held, ...]] = field(default_factory=dict)
    _kept: dict[tuple[Degrees, int, str], list[KeptOfLayers]] = field(default_factory=dict)

    def fits(self, candidate: Candidate, size: int) -> bool:
        """Whether the first rank of each stage may fit into so many bytes."""
        bounds = (self.held_bytes, self.peak_bytes)  # the second traces a pass
        return all(bound(candidate) <= size for bound in bounds)

    def held_bytes(self, candidate: Candidate) -> int:
        """Bytes with the gradients, behind the backward or in the optimizer's step."""
        return max(
            int(held.weights + held.optimizer.device + held.gradients)
            + int(max(held.gathered, held.optimizer.temporaries))
            for held in self._held_by(candidate)
        )

    def peak_bytes(self, candidate: Candidate) -> int:
        """Bytes before the backward, with the gradients of earlier micro batches if there are any."""
        plan, settings = candidate
        accumulates = settings.grad_accum * plan.micro_batches > 1
        return max(
            int(held.weights + held.optimizer.device + held.gathered + accumulates * held.gradients)
            + int(in_flight(plan, stage.number) * self._of_layers(candidate, stage) // plan.virtual_stages)
            for stage, held in zip(self._stages(plan), self._held_by(candidate), strict=True)
        )

    def _held_by(self, candidate: Candidate) -> tuple[Held, ...]:
        """What a rank of each stage holds, whatever the batch."""
        plan = replace(candidate.plan, micro_batches=1)
        if plan not in self._held:
            _, weights = self._share(plan)
            self._held[plan] = tuple(
                held_bytes(weights, candidate.settings, plan, stage, 0) for stage in self._stages(plan)
            )
        return self._held[plan]

    def _stages(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages that may need most."""
        return tuple(distinct_stages(stages_of(plan, layer_count(self.question.model))))

    def _of_layers(self, candidate: Candidate, stage: Stage) -> Number:
        """Bytes that the layers of a stage keep of one micro batch."""
        plan, settings = candidate
        key = (_degrees(plan), settings.batch_size, settings.recompute)
        if key not in self._kept:
            self._kept[key] = list(self._traced(plan, settings))
        return sum((kept.size * stage.layers_of(kept.layers) for kept in self._kept[key]), 0)

    def _traced(self, plan: Plan, settings: MemorySettings) -> Iterator[KeptOfLayers]:
        """What the layers keep for the backward of one micro batch."""
        share, _ = self._share(plan)
        mine = replace(settings, seq_len=settings.tokens(self.question.model) // plan.cp)
        rule = recomputed(settings.recompute)
        traced = trace_memory(share, mine.request(share), mine.execution(), rule, moments=False)
        kept = [storage.record for storage in traced.ledger.saved.values()]
        placement = StagePlacement(share, [record.path for record in kept])
        for record in kept:
            layers = placement.layers(record.path)
            yield KeptOfLayers(layers[: int(record.times)], record.size)

    def _share(self, plan: Plan) -> tuple[Model, tuple[PlacedWeight, ...]]:
        """A rank's share of the model, and its weights."""
        key = _degrees(plan)
        if key not in self._shares:
            share, settings = plan.share(self.question.model), self.question.settings
            rows = shape_pass(share, settings.request(self.question.model)).rows
            self._shares[key] = share, tuple(placed_weights(share, rows))
        return self._shares[key]


def _degrees(plan: Plan) -> Degrees:
    """The degrees that change a rank's pass."""
    return plan.tp, plan.sp, plan.ep, plan.cp
