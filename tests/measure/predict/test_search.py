"""The best plan is that of brute force: every one of them timed, and its memory asked about exactly."""

from dataclasses import replace
from functools import cache

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.modules import MLP, Group, MixtureOfExperts
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import DeviceMemory, Plan, divisors
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.search.bounds import LeastMemory
from archcli.wings.serving.predict.search.candidates import Candidate, PlanCandidates
from archcli.wings.serving.predict.search.search import best_plan
from small import decoder, layer

EXPERTS = MixtureOfExperts(n_experts=4, top_k=2, expert=MLP(d_ff=12))
TWO_LAYERS = Group(n_layers=2, layer=layer())
MODELS = {
    "a decoder": decoder(TWO_LAYERS),
    "a tied table": decoder(TWO_LAYERS, tied=True),
    "experts": decoder(Group(n_layers=2, layer=layer(ffn=EXPERTS))),
}
REPEATED = {"none": 0.0, "attention": 0.1, "layer": 1 / 3}


def question(model, size, phase="train", batch=2, **settings):
    asked = MemorySettings(phase, batch, 16, dtype="fp32", backend="cpu", **settings)
    return MemoryQuestion(model, asked, Plan(), DeviceMemory("small", size))


class Timer:
    """Tells the times of `seconds`, and of what they are at least as much as it is told."""

    def __init__(self, least=0.0):
        self.share, self.timed = least, 0

    def least(self, candidate):
        return self.share * sum(seconds(candidate).values())

    def closer(self, candidate):
        yield self.least(candidate)

    def parts(self, candidate):
        self.timed += 1
        return seconds(candidate)


def seconds(candidate):
    """Times that favour few stages, large micro batches, wide replicas and little recomputation."""
    plan, settings = candidate
    computing = (1 + REPEATED[settings.recompute]) * (1 + 0.3 / settings.batch_size)
    return {
        "computing": computing,
        "bubble": computing * (plan.pp - 1) / plan.micro_batches,
        "communication": 0.07 * (plan.tp - 1) + 0.02 * plan.zero + 0.05 * plan.ep,
    }


def degrees(plan):
    return replace(plan, micro_batches=1)


@cache
def exact(name):
    """(candidate, bytes it needs) of every candidate of four devices."""
    asked = question(MODELS[name], 10**6, batch=1)
    return [
        (one, MemoryQuestion(asked.model, one.settings, one.plan, asked.device).answer().needed_bytes)
        for one in PlanCandidates(asked, 4, 4)
    ]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rank", [0, 1, 5, 50, 10**3])
def test_the_best_of_four_devices(name, rank):
    """On devices that so many of the candidates fit into."""
    needed = exact(name)
    size = [0, *sorted(n for _, n in needed)][: rank + 1][-1]
    asked, candidates = question(MODELS[name], size, batch=1), [one for one, _ in needed]
    fitting = sorted(
        ((sum(seconds(one).values()), one) for one, n in needed if n <= size), key=lambda pair: pair[0]
    )
    choice = best_plan(asked, candidates, Timer(0.9))
    best = fitting[0][1].plan if fitting else None
    others = [pair for pair in fitting if degrees(pair[1].plan) != degrees(best)]
    found = [(one.seconds, one.candidate) for one in (choice.best, choice.runner_up) if one is not None]
    assert found == fitting[:1] + others[:1]
    assert choice.n_tried == len(candidates)
    by_time = sorted(candidates, key=lambda one: sum(seconds(one).values()))
    faster = by_time.index(fitting[0][1]) if fitting else len(candidates)
    # a plan too large that is as fast as the best may count, too
    alike = [n > size for one, n in needed if fitting and sum(seconds(one).values()) == fitting[0][0]]
    assert faster <= best_plan(asked, candidates, Timer(1.0)).n_too_large <= faster + sum(alike)
    if faster:
        assert choice.too_large.candidate == by_time[0]


def test_every_plan_of_four_devices():
    """tp, pp and dp multiply to 4, of three layers at most 3 on stages; a step has 4 x 2 sequences."""
    candidates = list(PlanCandidates(question(decoder(), 10**6), 4, 4))
    assert {(c.plan.tp, c.plan.pp, c.plan.dp) for c in candidates} == {
        (1, 1, 4),
        (1, 2, 2),
        (2, 1, 2),
        (2, 2, 1),
        (4, 1, 1),
    }
    assert all(
        c.plan.dp * c.settings.batch_size * c.settings.grad_accum * c.plan.micro_batches == 4 * 2
        for c in candidates
    )
    # 4 replicas of 2 sequences: 2 at once, or 1 and 1; each of 3 recomputations, each of 4 stages of ZeRO
    assert sum(c.plan.dp == 4 for c in candidates) == 2 * 3 * 4
    assert all(c.plan.sp == (c.plan.tp > 1) for c in candidates)


def test_tensor_parallelism_stays_within_a_node():
    degrees = {c.plan.tp for c in PlanCandidates(question(decoder(), 10**6), 8, 2)}
    assert degrees == {1, 2}


def test_stated_recomputation_and_context_stay():
    asked = question(decoder(), 10**6, recompute="layer")
    asked = MemoryQuestion(asked.model, asked.settings, Plan(cp=2), asked.device)
    candidates = list(PlanCandidates(asked, 4, 4))
    assert {(c.settings.recompute, c.plan.cp, c.plan.devices) for c in candidates} == {("layer", 2, 4)}


def test_serving():
    """Replicas and stages of tensor parallelism; no more replicas than sequences."""
    plans = [c.plan for c in PlanCandidates(question(decoder(), 10**6, "decode"), 4, 4)]
    assert plans == [Plan(dp=2, pp=2), Plan(dp=2, tp=2), Plan(tp=2, pp=2), Plan(tp=4)]
    experts = [c.plan for c in PlanCandidates(question(MODELS["experts"], 10**6, "prefill", 4), 4, 4)]
    assert {(plan.tp, plan.ep) for plan in experts} == {
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
        (2, 4),
        (4, 1),
        (4, 2),
        (4, 4),
    }


def test_what_decides():
    """The runner-up has the same of everything but more to send."""
    asked = question(decoder(), 10**6)
    plans = [Candidate(Plan(dp=4, zero=zero), asked.settings) for zero in (2, 1)]
    choice = best_plan(asked, plans, Timer())
    assert choice.best.candidate.plan.zero == 1
    assert choice.decides.part == "communication"
    assert choice.decides.seconds == pytest.approx(0.02)
    assert best_plan(asked, plans[:1], Timer()).decides is None


def test_nothing_fits():
    choice = best_plan(question(decoder(), 100), PlanCandidates(question(decoder(), 100), 2, 2), Timer())
    assert (choice.best, choice.runner_up) == (None, None)
    assert choice.n_too_large == choice.n_tried > 0


def test_an_unknown_rate_is_told():
    class NoRate(Timer):
        def parts(self, candidate):
            raise ArchError("no rate")

    with pytest.raises(ArchError, match="no rate"):
        best_plan(question(decoder(), 10**6), PlanCandidates(question(decoder(), 10**6), 2, 2), NoRate())


@pytest.mark.long
def test_few_are_timed_where_the_least_is_known():
    """Those that may be faster than the runner-up."""
    asked = question(decoder(), 10**6)
    candidates = list(PlanCandidates(asked, 4, 4))
    for least in (1.0, 0.9, 0.0):
        timer = Timer(least)
        last = best_plan(asked, candidates, timer).runner_up.seconds
        assert timer.timed == sum(least * sum(seconds(one).values()) <= last for one in candidates)


def test_what_cannot_fit_is_not_timed():
    timer = Timer()
    choice = best_plan(question(decoder(), 100), PlanCandidates(question(decoder(), 100), 4, 4), timer)
    assert timer.timed == 1  # the first of those that do not fit
    assert choice.too_large.seconds > 0


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
def test_the_least_is_no_more_than_the_peak(name):
    """Of every candidate of four devices, and not much less."""
    least, shares = LeastMemory(question(MODELS[name], 10**6, batch=1)), []
    for candidate, needed in exact(name):
        bound = max(least.held_bytes(candidate), least.peak_bytes(candidate))
        assert bound <= needed, candidate
        shares.append(bound / needed)
    assert sum(shares) / len(shares) > 0.6


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b"])
def test_the_least_of_larger_models(name):
    asked = MemoryQuestion(load(name).model, MemorySettings("train", 1, 2048), Plan())
    least = LeastMemory(asked)
    for plan in (
        Plan(dp=8, zero=3),
        Plan(tp=2, sp=True, pp=4, micro_batches=8),
        Plan(dp=4, pp=2, micro_batches=2),
    ):
        for recompute in ("none", "layer"):
            candidate = Candidate(plan, MemorySettings("train", 1, 2048, recompute=recompute))
            answer = MemoryQuestion(asked.model, candidate.settings, plan).answer()
            assert max(least.held_bytes(candidate), least.peak_bytes(candidate)) <= answer.peak_bytes


def test_divisors():
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert divisors(0) == []
