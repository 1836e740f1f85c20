"""Requests of a simulated load: when each arrives, its prompt, and the tokens it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp, inf, log, sqrt
from random import Random
from typing import Literal, NamedTuple

from archcli.modules.spec.values import AboveZero, ZeroOrMore

LengthForm = Literal["fixed", "uniform", "lognormal"]
"""Lengths of prompts and outputs: all alike; from 1 to twice the mean; or lognormal about the mean."""
VARIATION = 1.0
"""Standard deviation of lognormal lengths over their mean."""


class LoadRequest(NamedTuple):
    """A request: seconds at which it arrives, tokens of its prompt, tokens it asks for, and those cached.

    `cached` tokens of the prompt are a prefix that the server holds already, once for all requests. Of one
    that is received another server computed the prompt and the first token, and sent the cache. `number`
    tells it from others.
    """

    arrival_s: float
    prompt: int
    new: int
    cached: int = 0
    is_received: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests drawn by a seed.

    requests: how many. rate: a second; None is all at once. burstiness: the shape of gamma-distributed
    intervals, 1 for Poisson arrivals.
    prompt, new: mean tokens; lognormal lengths have a standard deviation of VARIATION times their mean.
    prefix: tokens that prompts begin with, of which a share `hit` of requests finds them cached.
    """

    requests: AboveZero
    prompt: AboveZero
    new: AboveZero
    rate: float | None = None
    burstiness: float = 1.0
    spread: LengthForm = "fixed"
    seed: ZeroOrMore = 0
    prefix: ZeroOrMore = 0
    hit: float = 0.0

    def drawn(self) -> tuple[LoadRequest, ...]:
        """The requests in the order of their arrival; those of a higher rate are the same, but closer."""
        arrivals, hits = self._arrivals(), Random(f"hits {self.seed}")  # noqa: S311 - no secrets
        lengths = zip(self._lengths("prompt", self.prompt), self._lengths("new", self.new), strict=False)
        return tuple(
            LoadRequest(at, prompt, new, min(self.prefix, prompt - 1) if hits.random() < self.hit else 0)
            for (prompt, new), at in zip(lengths, arrivals, strict=False)
        )

    def _arrivals(self) -> Iterator[float]:
        intervals, at = Random(f"arrivals {self.seed}"), 0.0  # noqa: S311
        for _ in range(self.requests):
            yield at
            if self.rate is not None:
                at += intervals.gammavariate(self.burstiness, 1 / self.burstiness) / self.rate

    def _lengths(self, name: str, mean: int) -> Iterator[int]:
        draws, variance = Random(f"{name} {self.seed}"), log(1 + VARIATION**2)  # noqa: S311
        for _ in range(self.requests):
            if self.spread == "fixed":
                yield mean
            elif self.spread == "uniform":
                yield draws.randint(1, 2 * mean - 1)
            else:
                yield max(1, round(exp(draws.gauss(log(mean) - variance / 2, sqrt(variance)))))


class Clients:
    """Requests as clients send them: each at its time, of `concurrency` in flight when one ends."""

    def __init__(self, requests: Sequence[LoadRequest], concurrency: int | None = None) -> None:
        self._left = iter(requests)
        self._next = next(self._left, None)
        self._free = [-inf] * (len(requests) if concurrency is None else concurrency)

    @property
    def next_s(self) -> float:
        """Seconds at which the next request is sent; infinite where none is before another ends."""
        return inf if self._next is None or not self._free else max(self._next.arrival_s, self._free[0])

    def sent(self, now: float) -> Iterator[LoadRequest]:
        """The requests that were sent by now and not before, with the seconds at which they were."""
        while self._next is not None and self.next_s <= now:
            yield self._next._replace(arrival_s=self.next_s)
            heappop(self._free)
            self._next = next(self._left, None)

    def ended(self, now: float) -> None:
        """A request ended: its client may send the next."""
        heappush(self._free, now)
