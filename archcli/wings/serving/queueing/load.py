"""A load on a predicted server: requests, scheduler and cache of a question, and what they bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from archcli.wings.serving.predict.answers.limits import title
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.predict.live import TOKEN
from archcli.wings.serving.predict.times import Seconds
from archcli.wings.serving.queueing.outcome import NO_TARGETS, LoadOutcome, Replicas, Targets
from archcli.wings.serving.queueing.pass_times import Figure, PredictedPasses
from archcli.wings.serving.queueing.requests import LoadRequest
from archcli.wings.serving.queueing.room import Lengths, cache_room
from archcli.wings.serving.queueing.scheduler import Scheduler

ONE_SECOND = Seconds(0.0, 1.0, 1.0, 1.0, is_calibrated=True)
ROUNDS = 5
"""Requests of each place of a server that is kept full."""


class Load(NamedTuple):
    """Requests in the order of their arrival.

    concurrency: the most in flight; None is any number. rate: requests a second that arrive in the mean; None
    where they come at once, or each when another ends.
    """

    requests: tuple[LoadRequest, ...]
    concurrency: int | None = None
    rate: float | None = None

    def paced(self, rate: float) -> Load:
        """The same requests, as far apart as makes so many a second."""
        factor = (self.rate or rate) / rate
        requests = (request._replace(arrival_s=factor * request.arrival_s) for request in self.requests)
        return self._replace(requests=tuple(requests), rate=rate)


@dataclass
class LoadedServer:
    """The server of a question under a load, with the scheduler of its engine.

    `ranges` are those that held 80% of measured over expected: of a first token, a token, and the rate.
    `known` are passes of a replica that were predicted before.
    """

    question: PredictQuestion
    load: Load
    scheduler: Scheduler
    targets: Targets = NO_TARGETS
    ranges: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    known: PredictedPasses | None = None

    @cached_property
    def replicas(self) -> Replicas:
        """The replicas of the plan, with their caches."""
        requests, number = self.load.requests, self.question.plan.dp
        totals = [request.prompt + request.new for request in requests]
        lengths = Lengths(min(request.prompt for request in requests), max(totals))
        in_flight = -(-min(len(requests), self.load.concurrency or len(requests)) // number)
        in_flight = min(in_flight, self.scheduler.max_sequences or in_flight)
        room = cache_room(self.question, lengths, in_flight, self.scheduler.pools)
        # a prefix lies in the cache once for all
        room = room._replace(pages=room.pages - max(request.cached for request in requests) // room.page)
        beside_s = self.question.live.first_s if self.question.live else 0.0
        most = min(self.scheduler.max_sequences or inf, max(1.0, room.sequences))
        scheduler = replace(self.scheduler, max_sequences=None if most == inf else int(most))
        return Replicas(scheduler, room, number, beside_s)

    @cached_property
    def passes(self) -> PredictedPasses:
        """The server's passes, each predicted once."""
        scheduler = self.scheduler
        return self.known or PredictedPasses(self.question, scheduler.micro_batch, in_turn=scheduler.in_turn)

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.question.plan.devices

    @property
    def title(self) -> str:
        """The question: `serving, 1,000 x 1,024 tokens and 256 more, bf16, tp 2, on 2 x h100-sxm`."""
        return title(self.question.changed(batch_size=len(self.load.requests)))

    @cached_property
    def is_known(self) -> bool:
        """Whether times are expected, or limits alone."""
        return self.question.answer().prediction.seconds.is_calibrated

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that are known."""
        return ("floor", "expected") if self.is_known else ("floor",)

    @property
    def usual(self) -> Figure:
        """The figure to show where there is room for one."""
        return "expected" if self.is_known else "floor"

    def times(self, figure: Figure) -> PredictedPasses:
        """Passes by a figure: of live servers as long as a token takes beside others."""
        live = self.question.engine.live
        if figure == "floor" or live is None:
            return self.passes.by(figure, 1.0)
        return self.passes.by(figure, live.of_kernels(ONE_SECOND, TOKEN, "several").expected)

    def outcome(self, figure: Figure, load: Load | None = None) -> LoadOutcome:
        """What the load brings, or another one of the same requests."""
        replicas, load = self.replicas, load or self.load
        if figure == "floor":
            replicas = replace(replicas, beside_s=0.0)
        return replicas.serve(load.requests, self.times(figure), load.concurrency, self.targets)

    def capacity(self, figure: Figure) -> float:
        """Requests a second that the server can take: those that end while many wait, in all replicas.

        The requests come again and again, until each place of a replica had several of them.
        """
        replica, requests = replace(self.replicas, number=1), self.load.requests
        most = replica.at_once(requests)
        needed = range(max(len(requests), ROUNDS * most))
        waiting = [requests[number % len(requests)]._replace(arrival_s=0.0) for number in needed]
        return self.replicas.number * replica.serve(waiting, self.times(figure)).steady_per_s
