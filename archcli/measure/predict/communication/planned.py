"""PlannedPass: the pass of one rank of a plan, its weights, and all that it sends in a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from archcli.arith import Number
from archcli.graph import Row
from archcli.measure.memory.pipeline import Stage, stages_of
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.shares import PlacedWeight, placed_weights
from archcli.measure.passes import shape_pass
from archcli.measure.predict.rank.placement import StagePlacement, stage_rows
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.request import Request

if TYPE_CHECKING:
    from archcli.measure.predict.communication.collective import Collective


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """The pass of one rank's share of a model, in one piece: of a pipeline the rows of all stages.

    It is the same for all plans of equal `tp`, `sp`, `ep` and `cp`. `hidden` are the B T d elements between
    two layers, of all the ranks that share them. `width` are the bytes of an element.
    """

    model: Model
    request: Request
    rows: tuple[Row, ...]
    weights: tuple[PlacedWeight, ...]
    placement: StagePlacement
    repeated: frozenset[str]
    hidden: Number
    width: Number
    _of_stages: dict[Stage, tuple[Collective, ...]] = field(default_factory=dict, compare=False, repr=False)

    def repeating(self, settings: MemorySettings) -> PlannedPass:
        """The same pass with what these settings recompute."""
        # an empty cache: the backward sends again what repeated rows send
        return replace(self, repeated=_repeated(self.rows, settings), _of_stages={})

    def stages(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages of a plan."""
        return stages_of(plan, self.placement.n_layers)

    def collectives(self, plan: Plan, stage: Stage, grad_accum: int = 1) -> Iterator[Collective]:
        """What a rank of a stage sends: of training in a whole step, else in a pass."""
        if plan.devices == 1:
            return
        of_rows = self.of_micro_batch(plan, stage)
        if self.request.phase != "train":
            yield from of_rows
            return
        from archcli.measure.predict.communication.exchanges import (
            of_replicas,  # of training alone
            of_stages,
        )

        micro_batches = plan.micro_batches * grad_accum
        yield from (one.scaled(micro_batches) for one in of_rows)
        yield from of_stages(plan, stage, self.hidden, self.width, micro_batches)
        yield from of_replicas(self.weights, plan, stage, self.width, micro_batches)

    def of_micro_batch(self, plan: Plan, stage: Stage) -> tuple[Collective, ...]:
        """What the rows of a stage send in one micro batch, or in a pass."""
        from archcli.measure.predict.communication.collective import merged  # of several devices alone

        if stage not in self._of_stages:
            self._of_stages[stage] = merged(self._of_rows(plan, stage))
        return self._of_stages[stage]

    def _of_rows(self, plan: Plan, stage: Stage) -> Iterator[Collective]:
        from archcli.measure.predict.communication.exchanges import (
            of_context,  # of several devices alone
            of_rows,
        )

        rows = tuple(stage_rows(self.placement, self.rows, stage))
        training = self.request.phase == "train"
        yield from of_rows(rows, plan, self.width, self.repeated if training else None)
        if training:
            yield from of_context(rows, plan, self.width, self.repeated)


def planned_pass(model: Model, settings: MemorySettings, plan: Plan) -> PlannedPass:
    """Trace the shapes of a rank's pass: of training a micro batch, else what a replica has of the batch.

    Raises ArchError for a plan that the model cannot have.
    """
    plan.check(model, settings)
    training = settings.phase == "train"
    tokens = settings.tokens(model)
    mine = replace(settings, seq_len=tokens // plan.cp) if training else replica_settings(settings, plan)
    request = mine.request(model)
    # multi-token prediction runs in training alone: inference holds no weights of it
    share = plan.share(model if training else inferring(model))
    passed = shape_pass(share, request)
    return PlannedPass(
        share,
        request,
        passed.rows,
        tuple(placed_weights(share, passed.rows)),
        StagePlacement(share, [row.path for row in passed.rows]),
        _repeated(passed.rows, settings),
        settings.batch_size * tokens * model.d_model,
        settings.width,
    )


def _repeated(rows: Sequence[Row], settings: MemorySettings) -> frozenset[str]:
    """Paths of the rows that the backward runs again."""
    if settings.phase != "train" or settings.recompute == "none":
        return frozenset()
    from archcli.measure.memory.training.losses import recomputed  # of training alone
    from archcli.measure.predict.rank.kernel import repeated_paths

    return repeated_paths(rows, recomputed(settings.recompute), settings.execution())


def replica_settings(settings: MemorySettings, plan: Plan) -> MemorySettings:
    """The settings of one replica, which has its part of all sequences in flight."""
    # rounded up: the replica with most sequences decides
    return replace(settings, batch_size=-(-settings.batch_size // plan.dp))
