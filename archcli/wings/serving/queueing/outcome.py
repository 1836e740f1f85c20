"""What requests of a simulated load saw: first tokens, tokens after them, rates, the queue, the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from statistics import quantiles
from typing import NamedTuple

from archcli.wings.serving.queueing.requests import Clients, LoadRequest
from archcli.wings.serving.queueing.scheduler import CacheRoom, Scheduler
from archcli.wings.serving.queueing.server import PassTimes, Served, Server

PERCENTILES = (50, 90, 99)
EDGE = 10
"""The first and the last 1 / EDGE of requests that wait from the start on are no steady state."""


class Spread(NamedTuple):
    """Seconds of all requests, or tokens, in the mean and at percentiles."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of values that count alike; percentiles lie between two of them."""
        ordered = sorted(values)
        return cls(fsum(ordered) / max(1, len(ordered)), *(percentile(ordered, p) for p in PERCENTILES))

    @classmethod
    def weighted(cls, values: Iterable[tuple[float, int]]) -> Spread:
        """Of (value, how many)."""
        ordered = sorted(values)
        sums = [*accumulate(number for _, number in ordered)]
        total = sums[-1] if sums else 0
        mean = fsum(value * number for value, number in ordered) / max(1, total)
        return cls(mean, *(_value_at(ordered, sums, total * p / 100) for p in PERCENTILES))


def percentile(ordered: Sequence[float], p: int) -> float:
    """The value below which p% of the ordered values are, linear between two; 0 of none."""
    if not ordered:
        return 0.0
    return quantiles(ordered if len(ordered) > 1 else [*ordered] * 2, n=100, method="inclusive")[p - 1]


def _value_at(ordered: list[tuple[float, int]], sums: list[int], number: float) -> float:
    return next((value for (value, _), upto in zip(ordered, sums, strict=True) if upto >= number), 0.0)


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What a load brings, in all replicas; rates are a second of the whole run.

    seconds: to the end of the last request. between: gaps between tokens of a sequence. running, waiting:
    sequences in the mean over time; pages: share of the caches. goodput: requests a second that met targets.
    steady_per_s: requests a second that ended, without the first and the last tenth.
    """

    seconds: float
    first: Spread
    per_token: Spread
    between: Spread
    end_to_end: Spread
    tokens_per_s: float
    prompt_tokens_per_s: float
    requests_per_s: float
    running: float
    waiting: float
    most_running: int
    most_waiting: int
    pages: float
    most_pages: float
    preemptions: int
    goodput: float
    steady_per_s: float


class Targets(NamedTuple):
    """Seconds to a first token and of each after it that a percentile of requests must not exceed."""

    first_s: float | None = None
    token_s: float | None = None
    percentile: float = 90.0

    def met(self, served: Served) -> bool:
        """Whether a request met them."""
        first = served.first_s - served.request.arrival_s
        return first <= (self.first_s or first) and _token_s(served) <= (self.token_s or _token_s(served))

    def met_by(self, outcome: LoadOutcome) -> bool:
        """Whether the percentile of requests met them."""
        return outcome.goodput >= self.percentile / 100 * outcome.requests_per_s


NO_TARGETS = Targets()


def _token_s(served: Served) -> float:
    """Seconds of a token after the first."""
    return (served.end_s - served.first_s) / max(1, served.request.new - 1)


@dataclass(frozen=True, slots=True)
class Replicas:
    """A server's replicas, each with a scheduler and a cache; requests go to them in turn."""

    scheduler: Scheduler
    room: CacheRoom
    number: int = 1
    beside_s: float = 0.0

    def at_once(self, requests: Sequence[LoadRequest]) -> int:
        """Requests of a mean length that run at once in a replica, by its cache and its scheduler."""
        tokens = sum(request.prompt + request.new for request in requests) // len(requests)
        by_cache = self.room.pages / self.room.of(tokens)
        return max(1, int(min(self.scheduler.max_sequences or len(requests), by_cache)))

    def serve(
        self,
        requests: Sequence[LoadRequest],
        times: PassTimes,
        concurrency: int | None = None,
        targets: Targets = NO_TARGETS,
    ) -> LoadOutcome:
        """What requests see whose passes take such times. Raises ArchError for one too long for the cache.

        `beside_s` of each request pass beside the server's passes, before its first token.
        """
        servers = self.run(requests, times, concurrency)
        ended = [served for server in servers for served in server.ended]
        for served in ended:
            served.first_s += self.beside_s
            served.end_s += self.beside_s
        return outcome_of(ended, servers, targets, self.room.pages)

    def run(
        self, requests: Sequence[LoadRequest], times: PassTimes, concurrency: int | None = None
    ) -> list[Server]:
        """The servers after they served all requests, which go to them in turn."""
        number = min(self.number, len(requests))
        servers = []
        for replica in range(number):
            limit = None if concurrency is None else max(1, -(-(concurrency - replica) // number))
            server = Server(self.scheduler, self.room, times, Clients(requests[replica::number], limit))
            server.run()
            servers.append(server)
        return servers


def outcome_of(
    ended: Sequence[Served], servers: Sequence[Server], targets: Targets, pages: float
) -> LoadOutcome:
    """What requests saw on servers with so many pages each."""
    begin = min(served.request.arrival_s for served in ended)
    seconds = max(served.end_s for served in ended) - begin
    sums = [server.over_time for server in servers]
    return LoadOutcome(
        seconds,
        Spread.of(served.first_s - served.request.arrival_s for served in ended),
        Spread.of(_token_s(served) for served in ended if served.request.new > 1),
        Spread.weighted(gap for server in servers for gap in server.gaps),
        Spread.of(served.end_s - served.request.arrival_s for served in ended),
        sum(served.request.new for served in ended) / seconds,
        sum(served.request.prompt for served in ended) / seconds,
        len(ended) / seconds,
        fsum(it.running for it in sums) / seconds,
        fsum(it.waiting for it in sums) / seconds,
        sum(it.most_running for it in sums),
        sum(it.most_waiting for it in sums),
        fsum(it.pages for it in sums) / seconds / pages / len(servers),
        max(it.most_pages for it in sums) / pages,
        sum(server.preemptions for server in servers),
        sum(targets.met(served) for served in ended) / seconds,
        _steady(sorted(served.end_s for served in ended)),
    )


def _steady(ends: Sequence[float]) -> float:
    """Ends a second between the tenth and the ninetieth percentile; of the whole where all are at once."""
    edge = len(ends) // EDGE
    within = ends[edge : len(ends) - edge]
    span = within[-1] - within[0]
    return (len(within) - 1) / span if span > 0 else len(ends) / max(ends)
