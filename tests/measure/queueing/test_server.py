"""The simulated server against closed forms of queues, and against one pass at a time."""

from dataclasses import dataclass
from math import ceil, isclose
from random import Random

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.queueing.outcome import Replicas, Targets
from archcli.wings.serving.queueing.requests import Clients, Request, Workload
from archcli.wings.serving.queueing.scheduler import CacheRoom, Scheduler
from archcli.wings.serving.queueing.server import Server


@dataclass(frozen=True)
class Line:
    """A pass takes `fixed` seconds, `of_token` for each token in it and `of_context` for each cached one."""

    fixed: float = 0.0
    of_token: float = 0.0
    of_context: float = 0.0

    def tokens_s(self, sequences, context):
        return self.fixed + sequences * (self.of_token + self.of_context * context)

    def mixed_s(self, sequences, context, pieces):
        beside = sum(piece.tokens for piece in pieces) * self.of_token
        return self.tokens_s(sequences, context) + beside


ONE = Scheduler(max_sequences=1)
ALL = CacheRoom()


def served(requests, scheduler, times, room=ALL, concurrency=None):
    """The server after all requests, in the order in which they came."""
    server = Server(scheduler, room, times, Clients(requests, concurrency))
    server.run()
    server.ended.sort(key=lambda it: (it.request.arrival_s, it.end_s))
    return server


def waits(server, service):
    """Seconds that requests wait before they are served."""
    return [it.first_s - it.request.arrival_s - service for it in server.ended]


def test_deterministic_arrivals_below_capacity_never_wait():
    """D/D/1: a request of 2 s each 3 s waits for nothing."""
    requests = [Request(3.0 * n, 10, 1) for n in range(50)]
    assert max(waits(served(requests, ONE, Line(fixed=2.0)), 2.0)) == 0.0


def test_deterministic_arrivals_beyond_capacity_wait_longer_and_longer():
    """D/D/1: a request of 3 s each 2 s waits a second more than the one before it."""
    requests = [Request(2.0 * n, 10, 1) for n in range(50)]
    assert waits(served(requests, ONE, Line(fixed=3.0)), 3.0) == pytest.approx([*range(50)])


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_poisson_arrivals_and_equal_services_wait_as_long_as_pollaczek_and_khinchine_say(load):
    """M/D/1: the mean wait is rho S / (2 (1 - rho))."""
    requests = Workload(60_000, 1, 1, rate=load).drawn()
    found = waits(served(requests, ONE, Line(fixed=1.0)), 1.0)
    assert sum(found) / len(found) == pytest.approx(load / (2 * (1 - load)), rel=0.06)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_exponential_services_stay_as_long_as_m_m_1_says(load):
    """M/M/1: a request is there for S / (1 - rho) in the mean; services are prompts of exponential length."""
    draws, at, requests = Random(3), 0.0, []  # noqa: S311
    for _ in range(60_000):
        requests.append(Request(at, max(1, round(draws.expovariate(1e-4))), 1))
        at += draws.expovariate(load)
    server = served(requests, Scheduler(max_sequences=1, reserves="prompt"), Line(of_token=1e-4))
    there = [it.end_s - it.request.arrival_s for it in server.ended]
    assert sum(there) / len(there) == pytest.approx(1 / (1 - load), rel=0.06)


SCHEDULERS = {
    "tokens and prompts in one pass": Scheduler(64, 8),
    "prompts alone, before tokens": Scheduler(64, 8, mixes=False),
    "whole prompts": Scheduler(64, 8, cuts=False),
    "all tokens reserved": Scheduler(64, 8, cuts=False, reserves="all"),
    "a share reserved": Scheduler(64, 8, mixes=False, reserves="share", share=(0.7, 0.1, 60), ahead=2),
}
SMALL = CacheRoom(pages=24, page=4)


def load(seed, rate=None):
    """Forty requests whose cache is at times too small."""
    return Workload(40, 24, 16, rate=rate, spread="uniform", seed=seed).drawn()


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("seed", range(6))
def test_every_run_keeps_the_law_of_little_and_gives_everything_back(name, seed):
    """Sequences that run or wait, summed over time, are the seconds of all requests (Little 1961)."""
    server = served(load(seed, rate=3.0), SCHEDULERS[name], Line(0.01, 0.002, 1e-5), SMALL)
    there = sum(it.end_s - it.request.arrival_s for it in server.ended)
    assert isclose(server.over_time.running + server.over_time.waiting, there, rel_tol=1e-9)
    assert len(server.ended) == 40
    assert server.over_time.most_pages <= SMALL.pages
    assert server._pages == pytest.approx(0)
    assert server._context == 0


def one_by_one(requests, scheduler, times, room):  # noqa: C901
    """Times of first and last tokens by one pass after the other, with a list of plain dicts.

    Tokens of running sequences first, then prompts in order; without a page the last gives way.
    """
    now, waiting, running, done = 0.0, [dict(r._asdict(), made=0, cached=0) for r in requests], [], []
    page = room.page

    def pages(tokens):
        return ceil(tokens / page)

    while waiting or running:
        gave_way = False

        def needed():
            return sum(pages(it["cached"] + 1) if it["decodes"] else pages(it["target"]) for it in running)

        while any(it["decodes"] for it in running) and needed() > room.pages:
            last = next((it for it in reversed(running) if not it["decodes"]), None) or running[-1]
            running.remove(last)
            last["cached"] = 0
            waiting.insert(0, last)
            gave_way = True
        decoding = [it for it in running if it["decodes"]]
        budget, pieces = scheduler.pass_tokens - len(decoding), []
        for it in running:
            if not it["decodes"] and budget > 0:
                tokens = min(it["target"] - it["cached"], budget)
                pieces.append((it, tokens))
                budget -= tokens
        while not gave_way and waiting and budget > 0 and len(running) < scheduler.max_sequences:
            it = waiting[0]
            if it["arrival_s"] > now:
                break
            target = it["prompt"] + it["made"]
            if running and needed() + pages(target) > room.pages:
                break
            waiting.pop(0)
            it |= {"target": target, "decodes": False, "cached": 0}
            running.append(it)
            tokens = min(target, budget)
            pieces.append((it, tokens))
            budget -= tokens
        if not running:
            now = max(now, min(it["arrival_s"] for it in waiting))
            continue
        context = sum(it["cached"] for it in decoding) / len(decoding) if decoding else 0.0
        count = sum(tokens for _, tokens in pieces)
        now += times.tokens_s(len(decoding), context) + count * times.of_token
        for it in decoding:
            it["cached"] += 1
            it["made"] += 1
        for it, tokens in pieces:
            it["cached"] += tokens
            if it["cached"] == it["target"]:
                it["made"] += 1
                it["decodes"] = True
                it.setdefault("first", now)
        for it in [it for it in running if it["made"] == it["new"]]:
            running.remove(it)
            done.append((it["arrival_s"], it["prompt"], it["new"], it["first"], now))
    return sorted(done)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rate", [None, 2.0, 8.0])
def test_many_passes_at_a_step_are_those_one_by_one(seed, rate):
    """Passes of tokens alone are one event, and take as long as one after the other."""
    requests, times = load(seed, rate), Line(0.01, 0.002, 1e-5)
    server = served(requests, Scheduler(64, 8), times, SMALL)
    found = sorted((*it.request[:3], it.first_s, it.end_s) for it in server.ended)
    expected = one_by_one(requests, Scheduler(64, 8), times, SMALL)
    assert [it[:3] for it in found] == [it[:3] for it in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[3:] == pytest.approx(theirs[3:], rel=1e-9)


def test_a_pass_has_no_more_tokens_than_its_budget():
    """100 tokens of prompts in passes of 64, and tokens of sequences that run count, too."""
    seen = []

    class Watched(Line):
        def mixed_s(self, sequences, context, pieces):
            seen.append(sequences + sum(piece.tokens for piece in pieces))
            return 1.0

    served([Request(0.0, 100, 5), Request(0.0, 100, 5)], Scheduler(64, 8), Watched(fixed=1.0))
    assert seen[0] == 64
    assert max(seen) == 64


def test_a_cached_prefix_is_not_computed_again():
    """Of a prompt of 100 tokens with 60 cached, 40 are."""
    server = served([Request(0.0, 100, 1, 60)], Scheduler(), Line(of_token=1.0))
    assert server.ended[0].first_s == 40.0


def test_a_request_longer_than_the_cache_is_an_error():
    """Nothing could ever serve it."""
    with pytest.raises(ArchError, match="does not fit into the cache"):
        served([Request(0.0, 100, 5)], Scheduler(), Line(fixed=1.0), SMALL)


def test_clients_send_the_next_request_when_one_ends():
    """Of six requests of 2 s, two in flight: pairs at 0, 2 and 4 s."""
    server = served([Request(0.0, 1, 1)] * 6, Scheduler(max_sequences=2), Line(fixed=2.0), concurrency=2)
    assert [it.request.arrival_s for it in server.ended] == [0, 0, 2, 2, 4, 4]


def test_replicas_share_requests_in_turn():
    """Two replicas serve ten requests of a second each in five seconds."""
    outcome = Replicas(ONE, ALL, 2).serve([Request(0.0, 1, 1)] * 10, Line(fixed=1.0))
    assert outcome.seconds == 5.0
    assert outcome.requests_per_s == 2.0


def test_a_higher_rate_waits_no_less():
    """First tokens of the same requests, closer to each other."""
    found = []
    for rate in (0.5, 1, 2, 4, 8, 16):
        requests = Workload(400, 24, 16, rate=rate, spread="lognormal").drawn()
        outcome = Replicas(Scheduler(64, 8), CacheRoom(200, 4)).serve(requests, Line(0.01, 0.002, 1e-5))
        found.append(outcome.first.mean)
    assert found == sorted(found)


def test_targets_count_requests_that_met_both():
    """Of four at once, served one after the other in a second each, two have a first token within 2 s."""
    outcome = Replicas(ONE, ALL).serve(
        [Request(0.0, 1, 1)] * 4, Line(fixed=1.0), targets=Targets(2.0, None, 50)
    )
    assert outcome.goodput * outcome.seconds == 2
    assert Targets(2.0, None, 50).met_by(outcome)
    assert not Targets(2.0, None, 60).met_by(outcome)
