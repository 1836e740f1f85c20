"""Lower bounds of the bytes and seconds of a parallel plan, to skip plans in a search.

`LeastMemory` adds up what a stage certainly holds. `LeastTime` has two bounds:

- for any plan: matrix products at the device's best rate, and exposed communication without latency. They are
  averaged over the stages of the pipeline: the slowest stage takes at least the mean.
- for a plan like a timed one: the kernels of the timed rank's busiest stage. In training, a sequence takes at
  least as long in a smaller batch, or where fewer ranks share the experts: weights are then read, and kernels
  launched, for fewer tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from archcli.arith import Number
from archcli.measure.passes import count_pass, shape_pass
from archcli.modules import Model
from archcli.modules.models.layers import layer_count
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.pipeline import Stage, in_flight, stages_of
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.ranks import distinct_stages, held_bytes
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import PlacedWeight, placed_weights
from archcli.wings.serving.memory.traced import trace_memory
from archcli.wings.serving.memory.training.held import Held
from archcli.wings.serving.memory.training.losses import recomputed
from archcli.wings.serving.predict.communication.collective import Collective, LinkPace, timed
from archcli.wings.serving.predict.communication.exchanges import bubble_share, of_replicas, of_rows
from archcli.wings.serving.predict.prediction import traced_plan
from archcli.wings.serving.predict.rank.planned import StagePlacement, planned_pass
from archcli.wings.serving.predict.rank.rank_times import RankTimes, TimingDevice
from archcli.wings.serving.predict.search.candidates import Candidate, of_replica

Degrees = tuple[int, bool, int, int]
"""tp, sp, ep and cp."""


def degrees_of(plan: Plan) -> Degrees:
    """The degrees of parallelism that change the operations of a rank's pass."""
    return plan.tp, plan.sp, plan.ep, plan.cp


class KeptOfLayers(NamedTuple):
    """A tensor kept for the backward: the layers that keep one each, and the bytes of one."""

    layers: range
    size: Number


@dataclass(slots=True)
class LeastMemory:
    """A lower bound of a training step's peak memory, quick enough for thousands of plans.

    Of the largest stage: weights, optimizer states and gathered weights, plus gradients,
    activations of all micro batches in flight, or temporaries of the optimizer's step. Plans with the same
    degrees share a trace.
    """

    question: MemoryQuestion
    _shares: dict[Degrees, tuple[Model, tuple[PlacedWeight, ...]]] = field(default_factory=dict)
    _held: dict[Plan, tuple[Held, ...]] = field(default_factory=dict)
    _kept: dict[tuple[Degrees, int, str], list[KeptOfLayers]] = field(default_factory=dict)

    def fits(self, candidate: Candidate, size: int) -> bool:
        """Whether the first rank of each stage may fit into so many bytes."""
        # in this order: held_bytes is quick, peak_bytes traces a pass
        bounds = (self.held_bytes, self.peak_bytes)
        return all(bound(candidate) <= size for bound in bounds)

    def held_bytes(self, candidate: Candidate) -> int:
        """Bytes with the gradients, after the backward or in the optimizer's step."""
        return max(
            int(held.weights + held.optimizer.device + held.gradients)
            + int(max(held.gathered.get("loss", 0), held.optimizer.temporaries))
            for held in self._held_by(candidate)
        )

    def peak_bytes(self, candidate: Candidate) -> int:
        """Bytes before the backward, with the gradients of earlier micro batches if there are any."""
        plan, settings = candidate
        accumulates = plan.sums_gradients(settings)
        return max(
            int(held.weights + held.optimizer.device + held.gathered.get("loss", 0))
            + int(accumulates * held.gradients)
            + int(in_flight(plan, stage.number) * self._of_layers(candidate, stage) // plan.virtual_stages)
            for stage, held in zip(self._stages(plan), self._held_by(candidate), strict=True)
        )

    def _held_by(self, candidate: Candidate) -> tuple[Held, ...]:
        """Weights, gradients and optimizer states of a rank of each stage; independent of the batch size."""
        plan = replace(candidate.plan, micro_batches=1)
        if plan not in self._held:
            _, weights = self._share(plan)
            self._held[plan] = tuple(
                held_bytes(weights, candidate.settings, plan, stage, 0) for stage in self._stages(plan)
            )
        return self._held[plan]

    def _stages(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages that may need the most memory."""
        return tuple(distinct_stages(stages_of(plan, layer_count(self.question.model))))

    def _of_layers(self, candidate: Candidate, stage: Stage) -> Number:
        """Bytes that the layers of a stage keep of one micro batch."""
        plan, settings = candidate
        key = (degrees_of(plan), settings.batch_size, settings.recompute)
        if key not in self._kept:
            self._kept[key] = list(self._traced(plan, settings))
        return sum((kept.size * stage.layers_of(kept.layers) for kept in self._kept[key]), 0)

    def _traced(self, plan: Plan, settings: MemorySettings) -> Iterator[KeptOfLayers]:
        """Activations that the layers keep for the backward of one micro batch."""
        share, _ = self._share(plan)
        mine = settings.of_length(share, settings.tokens(self.question.model) // plan.cp)
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
            self._shares[key] = share, tuple(placed_weights(share, rows, settings.width))
        return self._shares[key]


WholeDegrees = tuple[int, bool, int]
"""tp, sp and cp: plans with the same ones have ranks that differ in their experts alone."""


def whole_degrees(plan: Plan) -> WholeDegrees:
    """The degrees that split all but the experts."""
    return plan.tp, plan.sp, plan.cp


def of_pass(candidate: Candidate, question: MemoryQuestion, device: TimingDevice) -> int:
    """Sequences in one pass of a stage, in the phase of the question."""
    settings, phase = candidate.settings, question.settings.phase
    if settings.phase != phase:  # settings are checked anew, and a search asks often
        settings = replace(settings, phase=phase)
    plan = traced_plan(candidate.plan, settings, device)
    return int(plan.of_stage(settings, int(settings.tokens(question.model))).batch_size)


class LeastSending:
    """A lower bound of the seconds of communication, for ranks with the same tp, sp, ep and cp.

    `whole` is a stage of all layers.
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
        """Exposed communication of one sequence: seconds that no compute hides."""
        if stage not in self._waited:
            share = self._planned.placement.share
            sent = ((float(share(path, stage)), seconds) for path, seconds in self._of_places)
            self._waited[stage] = sum(seconds * part for part, seconds in sent)
        return self._waited[stage]

    def of_replicas(self, plan: Plan, stage: Stage, micro_batches: int) -> float:
        """Seconds of the collectives of replicas (dp, ZeRO) in a step, at the datasheet's rate."""
        key = plan.dp, plan.zero, stage
        if key not in self._replicas:
            # seconds are a + b * n for n micro batches: two values of n give a and b
            of_one, of_two = (self._of_step(plan, stage, n) for n in (1, 2))
            self._replicas[key] = 2 * of_one - of_two, of_two - of_one
        fixed, per_batch = self._replicas[key]
        return fixed + micro_batches * per_batch

    def _of_step(self, plan: Plan, stage: Stage, micro_batches: int) -> float:
        weights, widths = self._planned.weights, self._planned.widths
        sent = of_replicas(weights, _of_one_stage(plan), stage, widths, micro_batches)
        return sum(collective.time_s for collective in timed(sent, self._device.fabric))

    def _by_place(self, plan: Plan) -> list[tuple[str, float]]:
        """(path of a row, seconds of communication of all rows in the same layers)."""
        planned, of_places = self._planned, dict[object, tuple[str, float]]()
        repeated = planned.repeated if planned.request.phase == "train" else None
        for row in planned.rows:
            sent = of_rows([(row, row.times)], plan, planned.width, repeated, planned.multiplied)
            place = planned.placement.place(row.path)
            path, before = of_places.get(place, (row.path, 0.0))
            of_places[place] = path, before + self._seconds_of(sent)
        return [(path, seconds) for path, seconds in of_places.values() if seconds]

    def _seconds_of(self, collectives: Iterable[Collective]) -> float:
        """Seconds of the bytes alone, without latency, at the part of the links' rate that rings reach."""
        seconds = 0.0
        rings = self._device.clock.efficiency
        for collective in collectives:
            ring = rings.ring(collective.group.ranks) if self._has_constants else None
            # no latency, which keeps it a lower bound however the bytes are cut into messages
            near = self._device.fabric.route(collective).link == "link"
            pace = LinkPace(0.0, ring.link if ring and near else 1.0)
            seconds += timed([collective], self._device.fabric, pace)[0].time_s
        return seconds


def _of_one_stage(plan: Plan) -> Plan:
    # 1f1b: a plan of one stage with an interleaved schedule is refused
    return replace(plan, pp=1, micro_batches=1, virtual_stages=1, schedule="1f1b")


@dataclass(frozen=True, slots=True)
class TimedRank:
    """The times of a rank with all layers.

    ep: ranks that share the experts.
    batch: sequences of a pass.
    recompute: the recomputation that it was timed with.
    """

    ep: int
    batch: int
    recompute: str
    times: RankTimes
    _busiest: dict[tuple[int, int, str], tuple[float, Stage]] = field(default_factory=dict)

    def busiest(self, plan: Plan, recompute: str) -> tuple[float, Stage]:
        """(seconds, stage) of the stage that computes longest.

        Recomputed kernels count only if the rank was timed with the same recomputation.
        """
        key = plan.pp, plan.virtual_stages, recompute
        if key not in self._busiest:
            stages = self.times.distinct(plan)
            self._busiest[key] = max((self._computing(stage, recompute), stage) for stage in stages)
        return self._busiest[key]

    def _computing(self, stage: Stage, recompute: str) -> float:
        seconds = self.times.of_stage(stage)
        repeated = 0.0 if recompute == self.recompute else seconds.recomputed.expected
        # without the host's launches, which may be hidden in part
        return seconds.kernels.expected - repeated


class StageAtLeast(NamedTuple):
    """A lower bound of a stage's seconds without collectives of replicas; the mean over `parts` stages."""

    stage: Stage
    seconds: float
    parts: int = 1


class LeastTime:
    """Lower bounds of the seconds of candidate plans; the more ranks are timed, the closer the bounds."""

    def __init__(self, question: MemoryQuestion, device: TimingDevice, native: str = "") -> None:
        """Begin without timed ranks. `native`: the dtype that packed matrices may be multiplied in."""
        self.question, self.device, self.native = question, device, native
        # one sequence, without recomputation
        self._alone = replace(question.settings, batch_size=1, recompute="none")
        self._sending: dict[Degrees, LeastSending] = {}
        self._timed: dict[WholeDegrees, list[TimedRank]] = {}

    def learn(self, candidate: Candidate, times: RankTimes) -> None:
        """Note the times of a candidate's rank, for the bounds of others."""
        plan, settings = candidate
        sequences = of_pass(candidate, self.question, self.device)
        timed_rank = TimedRank(plan.ep, sequences, settings.recompute, times)
        self._timed.setdefault(whole_degrees(plan), []).append(timed_rank)

    def seconds(self, candidate: Candidate, *, replicas: bool = True) -> float:
        """The bound of a pass or a step; without `replicas` their collectives are left out."""
        timed_ranks = self._timed.get(whole_degrees(candidate.plan), ())
        batch = of_pass(candidate, self.question, self.device) if timed_ranks else 0
        no_slower = [rank for rank in timed_ranks if self._is_no_more(rank, candidate.plan.ep, batch)]
        stages = [
            self._on_average(candidate),
            *(self._of_rank(candidate, rank) for rank in no_slower),
        ]
        if not replicas:
            return max(bound.seconds for bound in stages)
        return max(
            bound.seconds + self._of_replicas(candidate, bound.stage) / bound.parts for bound in stages
        )

    def _on_average(self, candidate: Candidate) -> StageAtLeast:
        """Seconds of matrix products and communication, the mean over the stages."""
        plan, sending = candidate.plan, self._sent(candidate.plan)
        products = self._products / (plan.tp * plan.cp)
        of_sequence = products * (1 + self._bubble(plan)) + sending.waited(sending.whole)
        return StageAtLeast(sending.whole, _sequences(candidate) * of_sequence / plan.pp, plan.pp)

    def _of_rank(self, candidate: Candidate, timed_rank: TimedRank) -> StageAtLeast:
        """Seconds of the busiest stage, by the kernels of a timed rank that is no slower per sequence."""
        plan, settings = candidate
        computing_s, stage = timed_rank.busiest(plan, settings.recompute)
        waited = self._sent(plan).waited(stage)
        of_sequence = (1 + self._bubble(plan)) * computing_s / timed_rank.batch + waited
        return StageAtLeast(stage, _sequences(candidate) * of_sequence)

    def _bubble(self, plan: Plan) -> float:
        """The least idle time of a stage, per second of compute; 0 in inference, where others may fill it."""
        return bubble_share(plan) if self.question.settings.phase == "train" else 0.0

    def _is_no_more(self, timed_rank: TimedRank, ep: int, batch: int) -> bool:
        """Whether the timed rank is no slower than a candidate's, so that its time is a bound."""
        # then only an equal rank is a bound: in a short pass of inference sharing experts may cost more than
        # it gains, and a small batch may fit into the device's cache
        if self.question.settings.phase != "train" or self.device.clock.rates.cache is not None:
            return (timed_rank.ep, timed_rank.batch) == (ep, batch)
        # with fewer ranks to share the experts the gradient of a weight sums up more tokens: a longer
        # product, but by far less than the reading of the weights takes
        return timed_rank.ep >= ep and timed_rank.batch >= batch

    def _of_replicas(self, candidate: Candidate, stage: Stage) -> float:
        """Seconds of the collectives of replicas that no compute hides; 0 without constants of steps."""
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
        return flops / self.device.best_rate(self.question.settings, self.native)

    def _sent(self, plan: Plan) -> LeastSending:
        """The communication of ranks with the degrees of this plan."""
        key = degrees_of(plan)
        if key not in self._sending:
            self._sending[key] = LeastSending(self.question.model, self._alone, plan, self.device)
        return self._sending[key]


def _sequences(candidate: Candidate) -> int:
    """Sequences that a replica runs in a pass or a step."""
    plan, settings = candidate
    return plan.micro_batches_of(settings) * of_replica(candidate)
