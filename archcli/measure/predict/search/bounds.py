"""Bounds of a plan: the bytes that it needs and the seconds that it takes at least.

LeastTime: seconds that a plan takes at least, by FLOPs, bytes sent and times of other plans. At first the
mean over the stages of a pipeline, which the slowest does not go below: what matrix products do at the best
rate there is, and what is sent that nothing can hide, as if no message had a latency. Once a rank is timed,
its kernels, of each stage: to train, a sequence takes no less in a smaller batch, nor where fewer ranks
share the experts, as then weights are read and launches are made for fewer tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from archcli.arith import Number
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.pipeline import Stage, in_flight, stages_of
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.ranks import distinct_stages, held_bytes
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.shares import PlacedWeight, placed_weights
from archcli.measure.memory.traced import trace_memory
from archcli.measure.memory.training.losses import recomputed
from archcli.measure.memory.training.step import Held
from archcli.measure.passes import count_pass, shape_pass
from archcli.measure.predict.communication.collective import Collective, LinkPace, timed
from archcli.measure.predict.communication.exchanges import bubble_share, of_replicas, of_rows
from archcli.measure.predict.rank.planned import StagePlacement, planned_pass
from archcli.measure.predict.rank.rank_times import RankTimes, TimingDevice
from archcli.measure.predict.search.candidates import Candidate, of_replica
from archcli.modules import Model
from archcli.modules.models.layers import layer_count

Degrees = tuple[int, bool, int, int]
"""tp, sp, ep and cp."""


def degrees_of(plan: Plan) -> Degrees:
    """The degrees that change a rank's pass."""
    return plan.tp, plan.sp, plan.ep, plan.cp


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
        accumulates = plan.micro_batches_of(settings) > 1
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
        key = (degrees_of(plan), settings.batch_size, settings.recompute)
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
        key = degrees_of(plan)
        if key not in self._shares:
            share, settings = plan.share(self.question.model), self.question.settings
            rows = shape_pass(share, settings.request(self.question.model)).rows
            self._shares[key] = share, tuple(placed_weights(share, rows))
        return self._shares[key]


WholeDegrees = tuple[int, bool, int]
"""tp, sp and cp: of plans whose ranks have the same, but for experts."""


def whole_degrees(plan: Plan) -> WholeDegrees:
    """The degrees that split what is no expert."""
    return plan.tp, plan.sp, plan.cp


class LeastSending:
    """Seconds that ranks of the same tp, sp, ep and cp send at least.

    `whole` is a stage of all layers. What each stage sends is found once.
    """

    def __init__(self, model: Model, settings: MemorySettings, plan: Plan, device: TimingDevice) -> None:
        """Trace the pass of one rank; the settings are those of one sequence."""
        self._device, self._has_constants = device, device.has_constants(settings.dtype)
        self._planned = planned_pass(model, settings, _of_one_stage(plan))
        self.whole = Stage(0, (range(self._planned.placement.n_layers),))
        self._of_places = self._by_place(plan)
        self._waited: dict[Stage, float] = {}
        self._replicas: dict[tuple[int, int, Stage], tuple[float, float]] = {}

    def waited(self, stage: Stage) -> float:
        """Seconds of what a rank sends of one sequence and waits for: nothing is computed meanwhile."""
        if stage not in self._waited:
            share = self._planned.placement.share
            sent = ((float(share(path, stage)), seconds) for path, seconds in self._of_places)
            self._waited[stage] = sum(seconds * part for part, seconds in sent)
        return self._waited[stage]

    def of_replicas(self, plan: Plan, stage: Stage, micro_batches: int) -> float:
        """Seconds of what replicas send in a step, at the rate on paper."""
        key = plan.dp, plan.zero, stage
        if key not in self._replicas:
            # seconds are a + b n of n micro batches, so that two points tell both numbers
            one, two = (self._of_step(plan, stage, n) for n in (1, 2))
            self._replicas[key] = 2 * one - two, two - one
        once, each = self._replicas[key]
        return once + micro_batches * each

    def _of_step(self, plan: Plan, stage: Stage, micro_batches: int) -> float:
        weights, width = self._planned.weights, self._planned.width
        sent = of_replicas(weights, _of_one_stage(plan), stage, width, micro_batches)
        return sum(one.time_s for one in timed(sent, self._device.fabric))

    def _by_place(self, plan: Plan) -> list[tuple[str, float]]:
        """(a row, seconds of what is sent by all rows of the layers that it stands for)."""
        planned, of_places = self._planned, dict[object, tuple[str, float]]()
        repeated = planned.repeated if planned.request.phase == "train" else None
        for row in planned.rows:
            sent = of_rows([(row, row.times)], plan, planned.width, repeated)
            place = planned.placement.place(row.path)
            path, before = of_places.get(place, (row.path, 0.0))
            of_places[place] = path, before + self._seconds_of(sent)
        return [(path, seconds) for path, seconds in of_places.values() if seconds]

    def _seconds_of(self, collectives: Iterable[Collective]) -> float:
        """Seconds of the bytes alone, at the share of the rate that rings reach."""
        seconds = 0.0
        for one in collectives:
            ring = self._device.clock.efficiency.ring(one.group.ranks) if self._has_constants else None
            # no latency, which keeps it a lower bound however the bytes are cut into messages
            pace = LinkPace(0.0, ring.link if ring else 1.0)
            seconds += sum(each.time_s for each in timed([one], self._device.fabric, pace))
        return seconds


def _of_one_stage(plan: Plan) -> Plan:
    # 1f1b, as a plan of one stage is refused an interleaved schedule
    return replace(plan, pp=1, micro_batches=1, virtual_stages=1, schedule="1f1b")


@dataclass(frozen=True, slots=True)
class TimedRank:
    """The times of a rank of all layers with a batch of sequences, where `ep` ranks share the experts."""

    ep: int
    batch: int
    recompute: str
    times: RankTimes
    _busiest: dict[tuple[int, int, str], tuple[float, Stage]] = field(default_factory=dict)

    def busiest(self, plan: Plan, recompute: str) -> tuple[float, Stage]:
        """(seconds, stage) of the stage that computes longest; what it repeats only if that is the same."""
        key = plan.pp, plan.virtual_stages, recompute
        if key not in self._busiest:
            stages = self.times.distinct(plan)
            self._busiest[key] = max((self._computing(stage, recompute), stage) for stage in stages)
        return self._busiest[key]

    def _computing(self, stage: Stage, recompute: str) -> float:
        one = self.times.of_stage(stage)
        return one.all.expected - (0.0 if recompute == self.recompute else one.recomputed.expected)


class StageAtLeast(NamedTuple):
    """Seconds of a stage at least, or of one of so many `parts` of it, but for what replicas send."""

    stage: Stage
    seconds: float
    parts: int = 1


class LeastTime:
    """Lower bounds of the seconds that candidates of a question take; closer, the more ranks are timed."""

    def __init__(self, question: MemoryQuestion, device: TimingDevice, low_dtype: str = "") -> None:
        """Know nothing but the question and the device; products may be in a `low_dtype`."""
        self.question, self.device, self.low_dtype = question, device, low_dtype
        # one sequence, and nothing run again
        self._alone = replace(question.settings, batch_size=1, recompute="none")
        self._sending: dict[Degrees, LeastSending] = {}
        self._timed: dict[WholeDegrees, list[TimedRank]] = {}

    def learn(self, candidate: Candidate, times: RankTimes) -> None:
        """Take note of the times of a candidate's rank."""
        plan, settings = candidate
        timed_rank = TimedRank(plan.ep, of_replica(candidate), settings.recompute, times)
        self._timed.setdefault(whole_degrees(plan), []).append(timed_rank)

    def seconds(self, candidate: Candidate, *, replicas: bool = True) -> float:
        """Seconds of a pass, or of a step; without `replicas` but for what these send each other."""
        timed_ranks = self._timed.get(whole_degrees(candidate.plan), ())
        bounds = [known for known in timed_ranks if self._is_no_more(known, candidate)]
        stages = [self._on_average(candidate), *(self._of_rank(candidate, known) for known in bounds)]
        if not replicas:
            return max(one.seconds for one in stages)
        return max(one.seconds + self._of_replicas(candidate, one.stage) / one.parts for one in stages)

    def _on_average(self, candidate: Candidate) -> StageAtLeast:
        """Seconds of products and of what is sent, the mean over the stages."""
        plan, sending = candidate.plan, self._sent(candidate.plan)
        products = self._products / (plan.tp * plan.cp)
        of_sequence = products * (1 + bubble_share(plan)) + sending.waited(sending.whole)
        return StageAtLeast(sending.whole, _sequences(candidate) * of_sequence / plan.pp, plan.pp)

    def _of_rank(self, candidate: Candidate, known: TimedRank) -> StageAtLeast:
        """Seconds of the busiest stage, by the kernels of a rank that needs no more for a sequence."""
        plan, settings = candidate
        computing_s, stage = known.busiest(plan, settings.recompute)
        waited = self._sent(plan).waited(stage)
        of_sequence = (1 + bubble_share(plan)) * computing_s / known.batch + waited
        return StageAtLeast(stage, _sequences(candidate) * of_sequence)

    def _is_no_more(self, known: TimedRank, candidate: Candidate) -> bool:
        """Whether a candidate's rank takes no less than the known one, so that its time is a bound."""
        ep, batch = candidate.plan.ep, of_replica(candidate)
        # inference is so short that what ranks do to share experts may outweigh what they gain; and a small
        # batch may lie in a cache
        if self.question.settings.phase != "train" or self.device.clock.rates.cache is not None:
            return (known.ep, known.batch) == (ep, batch)
        # the gradient of an expert's weight is a longer sum where fewer have more of its tokens, by far less
        # than its weights take to be read
        return known.ep >= ep and known.batch >= batch

    def _of_replicas(self, candidate: Candidate, stage: Stage) -> float:
        """Seconds of what replicas send in a step, as far as none is hidden."""
        (plan, settings), step = candidate, self.device.step_constants(self.question.settings)
        if step is None:
            return 0.0
        sent = self._sent(plan).of_replicas(plan, stage, plan.micro_batches_of(settings))
        return sent / step.communication

    @cached_property
    def _products(self) -> float:
        """Seconds of the matrix products of one sequence on one device."""
        request = self._alone.request(self.question.model)
        flops = float(count_pass(self.question.model, request).flops()[0])
        return flops / self.device.best_rate(self.question.settings, self.low_dtype)

    def _sent(self, plan: Plan) -> LeastSending:
        """What ranks of these degrees send."""
        key = degrees_of(plan)
        if key not in self._sending:
            self._sending[key] = LeastSending(self.question.model, self._alone, plan, self.device)
        return self._sending[key]


def _sequences(candidate: Candidate) -> int:
    """Sequences that a replica runs in a pass or a step."""
    plan, settings = candidate
    return plan.micro_batches_of(settings) * of_replica(candidate)
