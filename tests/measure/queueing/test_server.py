"""The simulated server against closed forms of queues, and against one pass at a time."""

from dataclasses import dataclass
from math import ceil, isclose
from random import Random

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.queueing.outcome import Replicas, Targets
from archcli.wings.serving.queueing.requests import Clients, LoadRequest, Workload
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
    requests = [LoadRequest(3.0 * n, 10, 1) for n in range(50)]
    assert max(waits(served(requests, ONE, Line(fixed=2.0)), 2.0)) == 0.0


def test_deterministic_arrivals_beyond_capacity_wait_longer_and_longer():
    """D/D/1: a request of 3 s each 2 s waits a second more than the one before it."""
    requests = [LoadRequest(2.0 * n, 10, 1) for n in range(50)]
    assert waits(served(requests, ONE, Line(fixed=3.0)), 3.0) == pytest.approx([*range(50)])


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_poisson_arrivals_and_equal_services_wait_as_long_as_pollaczek_and_khinchine_say(load):
    """M/D/1: the mean wait is rho S / (2 (1 - rho))."""
    requests = Workload(30_000, 1, 1, rate=load).drawn()
    found = waits(served(requests, ONE, Line(fixed=1.0)), 1.0)
    assert sum(found) / len(found) == pytest.approx(load / (2 * (1 - load)), rel=0.06)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_exponential_services_stay_as_long_as_m_m_1_says(load):
    """M/M/1: a request is there for S / (1 - rho) in the mean; services are prompts of exponential length."""
    draws, at, requests = Random(3), 0.0, []  # noqa: S311
    for _ in range(30_000):
        requests.append(LoadRequest(at, max(1, round(draws.expovariate(1e-4))), 1))
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


class OneByOne:
    """A server by one pass after the other, with lists of plain dicts.

    Tokens of running sequences first, then prompts in order; without a page the last gives way.
    """

    def __init__(self, requests, scheduler, times, room):
        self.now, self.running, self.done = 0.0, [], []
        self.waiting = [dict(it._asdict(), made=0, cached=0) for it in requests]
        self.scheduler, self.times, self.room = scheduler, times, room

    def run(self):
        """(arrival, prompt, new, first token, end) of each request."""
        while self.waiting or self.running:
            gave_way = self.make_room()
            decoding = [it for it in self.running if it["decodes"]]
            pieces = self.pieces(self.scheduler.pass_tokens - len(decoding), admits=not gave_way)
            if self.running:
                self.run_pass(decoding, pieces)
            else:
                self.now = max(self.now, min(it["arrival_s"] for it in self.waiting))
        return sorted(self.done)

    def pages(self):
        """Pages of what runs, with the next token of each sequence that decodes."""
        tokens = (it["cached"] + 1 if it["decodes"] else it["target"] for it in self.running)
        return sum(ceil(number / self.room.page) for number in tokens)

    def make_room(self):
        gave_way = False
        while any(it["decodes"] for it in self.running) and self.pages() > self.room.pages:
            prompts = [it for it in self.running if not it["decodes"]]
            last = (prompts or self.running)[-1]
            self.running.remove(last)
            self.waiting.insert(0, last)
            gave_way = True
        return gave_way

    def pieces(self, budget, *, admits):
        pieces = []

        def take(it):
            tokens = min(it["target"] - it["cached"], budget - sum(number for _, number in pieces))
            pieces.extend([(it, tokens)] * (tokens > 0))
            return tokens

        for it in self.running:
            if not it["decodes"]:
                take(it)
        while admits and self.waiting and len(self.running) < self.scheduler.max_sequences:
            it = self.waiting[0]
            it |= {"target": it["prompt"] + it["made"], "decodes": False, "cached": 0}
            full = self.running and self.pages() + ceil(it["target"] / self.room.page) > self.room.pages
            if it["arrival_s"] > self.now or full or take(it) <= 0:
                break
            self.running.append(self.waiting.pop(0))
        return pieces

    def run_pass(self, decoding, pieces):
        context = sum(it["cached"] for it in decoding) / len(decoding) if decoding else 0.0
        tokens = sum(number for _, number in pieces)
        self.now += self.times.tokens_s(len(decoding), context) + tokens * self.times.of_token
        for it in decoding:
            it["cached"] += 1
            it["made"] += 1
        for it, number in pieces:
            it["cached"] += number
            if it["cached"] == it["target"]:
                it["made"] += 1
                it["decodes"] = True
                it.setdefault("first", self.now)
        for it in [it for it in self.running if it["made"] == it["new"]]:
            self.running.remove(it)
            self.done.append((it["arrival_s"], it["prompt"], it["new"], it["first"], self.now))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rate", [None, 2.0, 8.0])
def test_many_passes_at_a_step_are_those_one_by_one(seed, rate):
    """Passes of tokens alone are one event, and take as long as one after the other."""
    requests, times = load(seed, rate), Line(0.01, 0.002, 1e-5)
    server = served(requests, Scheduler(64, 8), times, SMALL)
    found = sorted((*it.request[:3], it.first_s, it.end_s) for it in server.ended)
    expected = OneByOne(requests, Scheduler(64, 8), times, SMALL).run()
    assert [it[:3] for it in found] == [it[:3] for it in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[3:] == pytest.approx(theirs[3:], rel=1e-9)


def test_a_queue_by_hand():
    """The queue of docs/load.md."""
    server = served([LoadRequest(0.0, 600, 3)] * 3, Scheduler(1000, 8), Line(0.010, 20e-6))
    assert sorted(it.first_s for it in server.ended) == pytest.approx([0.030, 0.05602, 0.05602])
    assert sorted(it.end_s for it in server.ended) == pytest.approx([0.06608, 0.07612, 0.07612])


def test_a_pass_has_no_more_tokens_than_its_budget():
    """100 tokens of prompts in passes of 64, and tokens of sequences that run count, too."""
    seen = []

    class Watched(Line):
        def mixed_s(self, sequences, context, pieces):
            seen.append(sequences + sum(piece.tokens for piece in pieces))
            return 1.0

    served([LoadRequest(0.0, 100, 5), LoadRequest(0.0, 100, 5)], Scheduler(64, 8), Watched(fixed=1.0))
    assert seen[0] == 64
    assert max(seen) == 64


def test_a_cached_prefix_is_not_computed_again():
    """Of a prompt of 100 tokens with 60 cached, 40 are."""
    server = served([LoadRequest(0.0, 100, 1, 60)], Scheduler(), Line(of_token=1.0))
    assert server.ended[0].first_s == 40.0


def test_a_request_longer_than_the_cache_is_an_error():
    """Nothing could ever serve it."""
    with pytest.raises(ArchError, match="does not fit into the cache"):
        served([LoadRequest(0.0, 100, 5)], Scheduler(), Line(fixed=1.0), SMALL)


def test_clients_send_the_next_request_when_one_ends():
    """Of six requests of 2 s, two in flight: pairs at 0, 2 and 4 s."""
    server = served([LoadRequest(0.0, 1, 1)] * 6, Scheduler(max_sequences=2), Line(fixed=2.0), concurrency=2)
    assert [it.request.arrival_s for it in server.ended] == [0, 0, 2, 2, 4, 4]


def test_replicas_share_requests_in_turn():
    """Two replicas serve ten requests of a second each in five seconds."""
    outcome = Replicas(ONE, ALL, 2).serve([LoadRequest(0.0, 1, 1)] * 10, Line(fixed=1.0))
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
        [LoadRequest(0.0, 1, 1)] * 4, Line(fixed=1.0), targets=Targets(2.0, None, 50)
    )
    assert outcome.goodput * outcome.seconds == 2
    assert Targets(2.0, None, 50).met_by(outcome)
    assert not Targets(2.0, None, 60).met_by(outcome)


def test_llama_cpp_fills_a_batch_of_2048_beside_a_token_of_each_slot():
    """Four slots, prompts of 3,000, 5 tokens each; passes of 10 ms and 1 us a token. By hand:

    2,048 of the first prompt; 952 of it and 1,096 of the second; a token of the first, 1,904 of the second
    and 143 of the third; a token of both and 2,046 of the third; tokens of both, 811 of the third, 1,235 of
    the fourth; then the first makes its fifth token, and the fifth request has its slot a pass later.
    """
    scheduler = Scheduler.of(load_engine("llamacpp"), 512, max_sequences=4)
    assert (scheduler.pass_tokens, scheduler.micro_batch) == (2048, 512)
    requests = [LoadRequest(0.0, 3000, 5) for _ in range(5)]
    server = served(requests, scheduler, Line(fixed=0.01, of_token=1e-6))
    full = 0.01 + 2048e-6
    first, second, third, *_ = sorted(it.first_s for it in server.ended)
    assert (first, second, third) == pytest.approx((2 * full, 3 * full, 5 * full))
    assert server.over_time.most_running == 4
    assert max(it.first_s for it in server.ended) > 7 * full


def test_mlx_runs_a_chunk_of_eight_prompts_after_a_step_of_tokens():
    """Ten prompts of 3,000 tokens in chunks of 2,048: eight first, 952 of each, then the two that waited."""
    scheduler = Scheduler.of(load_engine("mlx"), 2048, max_sequences=32)
    requests = [LoadRequest(0.0, 3000, 2) for _ in range(10)]
    server = served(requests, scheduler, Line(fixed=0.01, of_token=1e-6))
    eight = 2 * 0.01 + 8 * 3000e-6
    firsts = sorted(it.first_s for it in server.ended)
    assert firsts[:8] == pytest.approx([eight] * 8)
    # the second tokens of the eight are made beside the first chunk of the other two
    assert firsts[8:] == pytest.approx([eight + 2 * 0.01 + (8 + 2 * 3000) * 1e-6] * 2)
