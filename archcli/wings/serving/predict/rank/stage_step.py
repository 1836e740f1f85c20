"""The step of a stage: its computing, what it sends and what compute hides of that, and its waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Literal, NamedTuple

from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.communication.collective import (
    Collective,
    Cover,
    Exposed,
    LinkPace,
    exposed,
    timed,
)
from archcli.wings.serving.predict.rank.rank_times import RankTimes, StageTimes
from archcli.wings.serving.predict.times import Seconds


class StageStep(NamedTuple):
    """Seconds of a rank of a stage, in total, computing and waiting, and its communication.

    `recomputed` is the part of the computing that the backward repeats, `launching` what the rank waits for
    its host.
    """

    total: Seconds
    computing: Seconds
    waiting: Seconds
    recomputed: Seconds
    communication: tuple[Exposed, ...]
    launching: Seconds = Seconds()

    @property
    def exposed_s(self) -> float:
        """Expected seconds of communication in which nothing is computed."""
        return fsum(exposed.least_s for exposed in self.communication)

    def plus(self, further: StageStep) -> StageStep:
        """Both, one after the other."""
        sent = {self._kind(part): part for part in self.communication}
        for part in further.communication:
            kind = self._kind(part)
            sent[kind] = sent[kind].plus(part) if kind in sent else part
        return StageStep(
            self.total.plus(further.total),
            self.computing.plus(further.computing),
            self.waiting.plus(further.waiting),
            self.recomputed.plus(further.recomputed),
            tuple(sent.values()),
            self.launching.plus(further.launching),
        )

    def scaled(self, times: float) -> StageStep:
        """The pass `times` one after the other."""
        if times == 1:
            return self
        return StageStep(
            self.total.scaled(times),
            self.computing.scaled(times),
            self.waiting.scaled(times),
            self.recomputed.scaled(times),
            tuple(part.scaled(times) for part in self.communication),
            self.launching.scaled(times),
        )

    @staticmethod
    def _kind(part: Exposed) -> tuple[object, ...]:
        """A key for collectives of one kind: contents, ranks and link, without the amount."""
        collective = part.timed.collective
        return collective.name, collective.purpose, collective.group, part.timed.link


def stage_step(times: RankTimes, plan: Plan, stage: Stage, grad_accum: int) -> StageStep:
    """The pass of a rank of a stage, or its step of `grad_accum` times the plan's micro batches.

    `times` may come from a step with another `grad_accum`: plans of a search share them.
    A stage waits (p - 1) / v micro batches as long as its own, arXiv:2104.04473 section 2.2.
    Raises ArchError for a link whose rate is not known.
    """
    micro_batch, training = times.of_stage(stage), times.settings.phase == "train"
    number = plan.micro_batches * grad_accum if training else 1
    computing, waiting = micro_batch.kernels.scaled(number), Seconds()
    if training:
        computing = computing.plus(times.update(plan, stage).time.seconds)
        # the pipeline fills and drains once for each accumulation
        waiting = micro_batch.all.scaled(plan.waited * grad_accum)
    recomputed = micro_batch.recomputed.scaled(number)
    collectives = tuple(times.rank.planned.collectives(plan, stage, grad_accum))
    sent = sending(collectives, times, micro_batch, number, computing) if collectives else Sending()
    least = computing.floor + sent.seconds.floor
    busy = computing.plus(sent.seconds).overlapped(Seconds(least, least, least, least))
    # the host goes on to launch while a rank computes and sends
    hosted = busy.overlapped(micro_batch.launching.scaled(number))
    total, communication = hosted.plus(waiting), sent.communication
    return StageStep(total, computing, waiting, recomputed, communication, hosted.beyond(busy))


OF_REPLICAS = ("weights", "gradients")
"""Purposes of collectives with constants fitted on training steps."""


class Sending(NamedTuple):
    """Seconds in which a rank sends and computes nothing, and the collectives with their times."""

    seconds: Seconds = Seconds()
    communication: tuple[Exposed, ...] = ()


def sending(
    collectives: Sequence[Collective], times: RankTimes, micro_batch: StageTimes, number: int, busy: Seconds
) -> Sending:
    """The exposed time of a rank's collectives, beside the compute of so many micro batches."""
    device = times.device
    floor = exposed(timed(collectives, device.fabric), _covers(micro_batch, number, "floor"))
    least = fsum(sent.least_s for sent in floor)
    if not device.has_constants(times.settings.dtype):
        return Sending(Seconds(least, least, least, fsum(sent.most_s for sent in floor)), tuple(floor))
    exposures = list(_expected(collectives, times, _covers(micro_batch, number, "expected")))
    low, high = (fsum(getattr(seconds, end) for _, seconds in exposures) for end in ("low", "high"))
    communication = tuple(sent for sent, _ in exposures)
    if busy.expected + fsum(sent.least_s for sent in communication) < busy.floor + least:
        # constants fitted to steps of more computing hide more than there is to hide it behind
        paper = exposed(timed(collectives, device.fabric), _covers(micro_batch, number, "expected"))
        at_limit = {sent.timed.collective: sent.least_s for sent in paper}
        communication = tuple(sent.not_below(at_limit[sent.timed.collective]) for sent in communication)
    expected = fsum(sent.least_s for sent in communication)
    return Sending(Seconds(least, expected, low, max(high, expected)), communication)


def _covers(
    micro_batch: StageTimes, number: int, kind: Literal["floor", "expected"]
) -> Mapping[Cover, float]:
    """Seconds of the compute that may run while something is sent."""
    forward, backward, attention = (number * getattr(seconds, kind) for seconds in micro_batch[:3])
    return {"forward": forward, "backward": backward, "compute": forward + backward, "attention": attention}


PASSES_OF_RING = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def _of_engine(collective: Collective, times: RankTimes) -> tuple[Exposed, Seconds] | None:
    """An engine's all-reduce within a node, which nothing hides; None for another collective.

    A gather or a scatter takes at most as long as an all-reduce of the whole.
    """
    engine, ranks, often = times.device.clock.engine, collective.group.ranks, float(collective.times)
    if engine is None or collective.name not in PASSES_OF_RING:
        return None
    (on_paper,) = timed([collective], times.device.fabric)
    # a rank sends (n - 1) / n of its message in each pass around a ring
    message = float(collective.bytes) / often * ranks / (PASSES_OF_RING[collective.name] * (ranks - 1))
    measured = engine.exchange(ranks, message) if on_paper.link == "link" else None
    if measured is None:
        return None
    seconds = often * max(measured.seconds, on_paper.time_s / often)
    low = max(on_paper.time_s, measured.low * seconds)
    sent = Exposed(on_paper._replace(time_s=seconds), seconds, seconds)
    return sent, Seconds(0.0, seconds, low, measured.high * seconds)


def _pace(collective: Collective, times: RankTimes) -> tuple[LinkPace, tuple[float, float]]:
    """The pace of a collective and its range: of machines by the network's constants, else by a ring's."""
    fabric = times.device.fabric
    if fabric.route(collective).link == "network":
        network = fabric.constants_of()
        return network.pace(collective.group, fabric.devices_per_node), (network.low, network.high)
    ring = times.device.clock.efficiency.ring(collective.group.ranks)
    if ring is None:
        return LinkPace(), (1.0, 1.0)
    return LinkPace(ring.latency, ring.link), ring.range(float(collective.bytes / collective.times))


def _expected(
    collectives: Iterable[Collective], times: RankTimes, covers: Mapping[Cover, float]
) -> Iterator[tuple[Exposed, Seconds]]:
    """Collectives with their exposed seconds, by the constants of steps or of rings.

    The collectives of replicas in a step have a constant of their own, fitted with what compute hides. All
    others take what a ring reaches, less the compute that may cover it.
    """
    step, fabric, by_ring = times.step, times.device.fabric, []
    for collective in collectives:
        measured = _of_engine(collective, times)
        if measured is not None:
            yield measured
            continue
        if step is None or collective.purpose not in OF_REPLICAS:
            pace, share = _pace(collective, times)
            by_ring.append((timed([collective], fabric, pace)[0], share))
            continue
        (on_paper,) = timed([collective], fabric)
        seconds, origin = on_paper.time_s / step.communication, step.origin
        low, high = origin.low * seconds, origin.high * seconds
        # a constant below 1 says that links are slower than on paper: what is exposed is under way
        taken = max(seconds, on_paper.time_s)
        yield Exposed(on_paper._replace(time_s=taken), seconds, taken), Seconds(0.0, seconds, low, high)
    uncovered = exposed([collective for collective, _ in by_ring], covers)
    for sent, (_, (low, high)) in zip(uncovered, by_ring, strict=True):
        yield sent, Seconds(0.0, sent.least_s, low * sent.least_s, high * sent.most_s)
