"""Times of candidates are those of their prediction, and none is below what it is told to take at least."""

import time
from dataclasses import replace
from functools import cache

import pytest

from archcli.load.source import load
from archcli.modules import MLP, Group, MixtureOfExperts
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, Rates
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.search.candidates import PlanCandidates
from archcli.wings.serving.predict.search.search import PlanTimer, best_plan
from archcli.wings.serving.predict.times import KernelClock
from small import decoder, layer

ORIGIN = {"error": 0.1, "low": 0.9, "high": 1.1, "rows": 9, "table": "t.csv", "fitted": "2026-01-01"}
PRODUCTS = {"launch_us": 3.0, "depth_ns": 0.2, "compute": 0.8, "memory": 0.9, "exponent": 2.3} | ORIGIN
KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
CONSTANTS = {
    "matrix_products": {"bf16": PRODUCTS},
    "attention": {"bf16": {"compute": 0.5} | ORIGIN},
    "memory_bound": {kind: {"launch_us": 1.0, "memory": 0.5} | ORIGIN for kind in KINDS},
    "communication": {"2": {"latency_us": 17.0, "link": 0.7, "small_low": 0.5, "small_high": 2.0} | ORIGIN},
}
STEPS = {"matrix_products": 0.8, "memory_bound": 0.4, "attention": 0.3, "communication": 0.9} | ORIGIN
EXPERTS = MixtureOfExperts(n_experts=8, top_k=2, expert=MLP(d_ff=16))
MODELS = {"a decoder": decoder(), "experts": decoder(Group(n_layers=2, layer=layer(ffn=EXPERTS)))}
DEVICES = {"floor": {}, "constants": CONSTANTS, "steps": CONSTANTS | {"training": {"bf16": STEPS}}}


def device(constants):
    rates = Rates("ours", {"bf16": 989.4e12, "fp32": 66.9e12}, 3350e9)
    return TimingDevice(KernelClock(rates, Efficiency(constants)), Fabric("ours", 450, 50))


@pytest.mark.sample(1)
@pytest.mark.parametrize("phase", ["train", "decode", "prefill"])
@pytest.mark.parametrize("constants", DEVICES)
def test_times_are_those_of_the_prediction(constants, phase):
    ours, model = device(DEVICES[constants]), decoder()
    asked = MemoryQuestion(model, MemorySettings(phase, 4, 16), Plan(), None)
    timer, candidates = PlanTimer(asked, ours), list(PlanCandidates(asked, 4, 4))
    for candidate in candidates[:: 13 if phase == "train" else 1]:
        found = predict_pass(model, candidate.settings, ours, candidate.plan)
        seconds = sum(timer.parts(candidate).values())
        assert seconds == pytest.approx(found.seconds.expected)
        assert 0 < timer.least(candidate) <= seconds


def test_all_steps_have_the_same_tokens():
    asked = MemoryQuestion(decoder(), MemorySettings("train", 2, 16), Plan(), None)
    for candidate in list(PlanCandidates(asked, 4, 4))[::17]:
        found = predict_pass(asked.model, candidate.settings, device({}), candidate.plan)
        assert found.tokens == 4 * 2 * 16


@pytest.mark.long
def test_a_thousand_devices_within_two_seconds():
    """Llama 3.1 70B on 1,024 of 79 GiB."""
    memory = DeviceMemory("ours", 84_932_978_278, 1024, "sm_90")
    asked = MemoryQuestion(load("llama-3.1-70b").model, MemorySettings("train", 1, 4096), Plan(), memory)
    ours = device(DEVICES["steps"])
    spent = []
    while not spent or (min(spent) >= 2 and len(spent) < 3):  # of a busy machine the quickest of three
        start = time.process_time()
        choice = best_plan(asked, PlanCandidates(asked, 1024, 8), PlanTimer(asked, ours))
        spent.append(time.process_time() - start)
    assert choice.n_tried == 1848
    assert choice.best.seconds < choice.runner_up.seconds
    assert min(spent) < 2


class Counting(PlanTimer):
    """Counts the candidates that it times."""

    timed = 0

    def parts(self, candidate):
        Counting.timed += 1
        return super().parts(candidate)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("constants", DEVICES)
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_the_best_that_serves_is_that_of_all(phase, constants):
    """Of replicas, stages and shared matrices and experts."""
    asked = MemoryQuestion(UNEVEN, MemorySettings(phase, 6, 16), Plan(), None)
    ours, candidates = device(DEVICES[constants]), list(PlanCandidates(asked, 4, 4))
    assert {one.plan.pp for one in candidates} == {1, 2, 4}
    choice = best_plan(asked, candidates, PlanTimer(asked, ours))
    by_time = [one for _, _, one in sorted(timed(PlanTimer(asked, ours), candidates))]
    assert choice.best.candidate == by_time[0]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("constants", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_the_best_is_that_of_all(name, constants):
    """With every candidate timed, and with those alone that may be the next."""
    asked = MemoryQuestion(MODELS[name], MemorySettings("train", 1, 16), Plan(), None)
    ours, candidates = device(DEVICES[constants]), list(PlanCandidates(asked, 8, 4))
    Counting.timed, every = 0, PlanTimer(asked, ours)
    choice = best_plan(asked, candidates, Counting(asked, ours))
    by_time = [one for _, _, one in sorted(timed(every, candidates))]
    runner_up = next(one for one in by_time if degrees(one) != degrees(by_time[0]))
    assert (choice.best.candidate, choice.runner_up.candidate) == (by_time[0], runner_up)
    assert Counting.timed < len(candidates)


WIDE = MixtureOfExperts(n_experts=8, top_k=2, expert=MLP(d_ff=1024))
UNEVEN = decoder(
    Group(n_layers=1, layer=layer()),
    Group(n_layers=3, layer=layer(ffn=WIDE)),
    d_model=256,
    vocab_size=1024,
)
"""A mixture whose stages differ: the first layer has no experts, and the last stage a wide head."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("constants", DEVICES)
@pytest.mark.parametrize("phase", ["train", "decode", "prefill"])
def test_no_plan_takes_less_than_it_is_told_to_at_least(constants, phase):
    """Neither before anything is timed nor when it may be the next."""
    asked = MemoryQuestion(UNEVEN, MemorySettings(phase, 1 if phase == "train" else 6, 16), Plan(), None)
    timer, candidates = PlanTimer(asked, device(DEVICES[constants])), list(PlanCandidates(asked, 4, 4))
    least = [timer.least(one) for one in candidates]
    closer = [list(timer.closer(one)) for one in candidates]
    for first, others, one in zip(least, closer, candidates, strict=True):
        assert first > 0
        assert sorted([first, *others]) == [first, *others]
        assert others[-1] <= sum(timer.parts(one).values()) * (1 + 1e-12)


@cache
def every_plan():
    """(seconds, which, candidate, bytes that it needs) of all plans of four devices, the fastest first."""
    ours, large = device(DEVICES["steps"]), DeviceMemory("large", 10**9, 4)
    asked = MemoryQuestion(UNEVEN, MemorySettings("train", 1, 16), Plan(), large)
    return sorted(
        (
            predict_pass(UNEVEN, one.settings, ours, one.plan).seconds.expected,
            number,
            one,
            MemoryQuestion(UNEVEN, one.settings, one.plan, large).answer().needed_bytes,
        )
        for number, one in enumerate(PlanCandidates(asked, 4, 4))
    )


@pytest.mark.long
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6, 1.0])
def test_the_best_that_fits_is_that_of_all(share):
    """On devices that so many of the plans of a mixture fit into: each is predicted, its memory counted."""
    every = every_plan()
    size = sorted(needed for *_, needed in every)[int(share * len(every)) - 1]
    fitting = [(seconds, one) for seconds, _, one, needed in every if needed <= size]
    others = [pair for pair in fitting if degrees(pair[1]) != degrees(fitting[0][1])]
    settings, memory = MemorySettings("train", 1, 16), DeviceMemory("ours", size, 4)
    asked = MemoryQuestion(UNEVEN, settings, Plan(), memory)
    choice = best_plan(asked, PlanCandidates(asked, 4, 4), PlanTimer(asked, device(DEVICES["steps"])))
    assert (choice.best.seconds, choice.runner_up.seconds) == pytest.approx((fitting[0][0], others[0][0]))
    assert degrees(choice.best.candidate) == degrees(fitting[0][1])


def timed(timer, candidates):
    return ((sum(timer.parts(one).values()), n, one) for n, one in enumerate(candidates))


def degrees(candidate):
    return replace(candidate.plan, micro_batches=1)
