"""PlanCandidates: every plan of N devices that trains or serves a model, and the batches of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archcli.modules import Model
from archcli.modules.spec.arguments import ZeroStage
from archcli.modules.spec.base import Spec, find
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan, divisors
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.training.losses import module_paths, recomputed

STAGES_OF_ZERO: tuple[ZeroStage, ...] = (0, 1, 2, 3)
RECOMPUTATIONS = ("none", "attention", "layer")
"""Settings of recomputation that are tried: nothing, the core of attention, whole layers."""


class Candidate(NamedTuple):
    """A plan, and the settings with which it does the same work as every other candidate."""

    plan: Plan
    settings: MemorySettings


def of_replica(candidate: Candidate) -> int:
    """Sequences that a replica runs at once: a micro batch, or its part of all that are in flight."""
    plan, settings = candidate
    return int(plan.of_replica(settings).batch_size)


@dataclass(slots=True)
class PlanCandidates:
    """All plans of a question's model on `n_devices`; a fast link joins `devices_per_node`.

    Every training step has n_devices x batch_size x grad_accum sequences, cut into micro batches of each size
    that divides a replica's part. `tp` stays within a node. Sequence parallelism goes with it where the model
    can have it: it sends as much and holds less. `cp`, schedule and virtual stages are those of the question.
    """

    question: MemoryQuestion
    n_devices: int
    devices_per_node: int
    _known: dict[Plan, bool] = field(default_factory=dict)
    _settings: dict[tuple[int, int, str], MemorySettings] = field(default_factory=dict)
    _tried: tuple[str, ...] = ()
    _has_experts: bool = False

    def __post_init__(self) -> None:
        model = self.question.model
        self._tried = _matching(model)
        self._has_experts = any(hasattr(module, "n_experts") for _, module in find(model, Spec))

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates in turn."""
        if self.question.settings.phase == "train":
            yield from self._training()
        else:
            yield from self._serving()

    def _serving(self) -> Iterator[Candidate]:
        by_layers = self.question.settings.splits_layers
        for tp in (1,) if by_layers else divisors(self.n_devices):
            rest = self.n_devices // tp
            # of ranks that have the same tokens some may share each expert
            within = [ep for ep in divisors(tp)[1:-1] if self._has_experts]
            for pp in divisors(rest):
                dp = rest // pp
                if dp > self.question.settings.batch_size:
                    continue  # a replica without a sequence
                for ep in (1,) if by_layers else (*self._expert_degrees(tp, dp), *within):
                    plan = Plan(dp=dp, tp=tp, pp=pp, ep=ep)
                    if self._can_be(plan):
                        yield Candidate(plan, self.question.settings)

    def _training(self) -> Iterator[Candidate]:
        for plan in self._layouts():
            # ZeRO shards over replicas, of which one has nothing to shard with
            for zero in STAGES_OF_ZERO if plan.replicas > 1 else STAGES_OF_ZERO[:1]:
                yield from self._batches(replace(plan, zero=zero))

    def _layouts(self) -> Iterator[Plan]:
        """Plans that the model can have, by their degrees alone: without ZeRO and micro batches."""
        cp = self.question.plan.cp
        beside_cp = self.n_devices // cp if self.n_devices % cp == 0 else 0
        for tp in divisors(beside_cp):
            if tp > self.devices_per_node:
                break
            for pp in divisors(beside_cp // tp):
                dp = beside_cp // tp // pp
                for ep in self._expert_degrees(tp, dp * cp):
                    plan = self._staged(Plan(dp=dp, tp=tp, ep=ep, cp=cp), pp)
                    if plan is not None:
                        yield plan

    def _staged(self, plan: Plan, pp: int) -> Plan | None:
        """The plan with pp stages and sequence parallelism if possible; None if the model cannot have it."""
        schedule, virtual_stages = self.question.plan.schedule, self.question.plan.virtual_stages
        if pp > 1:
            # pp micro batches, the fewest that an interleaved schedule takes
            stages = Plan(pp=pp, micro_batches=pp, schedule=schedule, virtual_stages=virtual_stages)
            if not self._can_be(stages):
                return None
        forms = [replace(plan, sp=True), plan] if plan.tp > 1 else [plan]
        # dp as small as the experts allow: more replicas change nothing, and the answer is known for all
        unstaged = next((form for form in forms if self._can_be(replace(form, dp=form.ep))), None)
        if unstaged is None or pp == 1:
            return unstaged
        return replace(unstaged, pp=pp, schedule=schedule, virtual_stages=virtual_stages)

    def _batches(self, plan: Plan) -> Iterator[Candidate]:
        """The plan with each size of a micro batch, and each recomputation."""
        settings = self.question.settings
        sequences = self.n_devices * settings.batch_size * settings.grad_accum
        of_replica, rest = divmod(sequences, plan.dp)
        for size in divisors(of_replica) if not rest else ():
            number = of_replica // size
            if plan.pp > 1 and plan.schedule == "interleaved" and number % plan.pp:
                continue
            of_batch = replace(plan, micro_batches=number) if plan.pp > 1 else plan
            accumulated = 1 if plan.pp > 1 else number
            for recompute in self._recomputations():
                yield Candidate(of_batch, self._with(size, accumulated, recompute))

    def _with(self, batch_size: int, grad_accum: int, recompute: str) -> MemorySettings:
        """The question's settings with these; each is checked once."""
        key = batch_size, grad_accum, recompute
        if key not in self._settings:
            self._settings[key] = replace(
                self.question.settings, batch_size=batch_size, grad_accum=grad_accum, recompute=recompute
            )
        return self._settings[key]

    def _recomputations(self) -> tuple[str, ...]:
        """The question's setting of recomputation; if it has none, all that match a path of the model."""
        recompute = self.question.settings.recompute
        return self._tried if recompute == "none" else (recompute,)

    def _expert_degrees(self, tp: int, replicas: int) -> Iterator[int]:
        """1, and the degrees that are multiples of tp and divide the devices of a stage."""
        yield 1
        if self._has_experts:
            yield from (tp * n for n in divisors(replicas) if tp * n > 1)

    def _can_be(self, plan: Plan) -> bool:
        """Whether the model can have a plan; each is checked once."""
        if plan not in self._known:
            self._known[plan] = plan.suits(self.question.model, self.question.settings)
        return self._known[plan]


def _matching(model: Model) -> tuple[str, ...]:
    """The recomputations that find something to recompute."""
    paths = module_paths(model)
    rules = {setting: recomputed(setting) for setting in RECOMPUTATIONS}
    return tuple(setting for setting, rule in rules.items() if rule is None or any(map(rule, paths)))
