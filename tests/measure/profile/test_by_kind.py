"""Stacks of each kind as they run.

Every operation of the whole model is measured, and experts that share memory do all their work.
"""

import pytest
import torch

from archcli.measure.passes import checked_pass
from archcli.modules import GLU, MixtureOfExperts, PreNorm
from archcli.modules.spec.request import Request
from archcli.wings.running.profile.extrapolate.plan import MemoryLimits, plan_of
from archcli.wings.running.profile.extrapolate.recording import extrapolated
from archcli.wings.running.runtime.model.build import build_model, store_experts
from archcli.wings.running.runtime.model.random_data import fill
from archcli.wings.running.runtime.profile.record import record
from archcli.wings.running.runtime.profile.work import BuildSettings, prepare
from archcli.wings.serving.memory.beyond.timed_run import run_memory
from recordings import GQA, MODELS, RMS, decoder, question

CASES = [(name, phase) for name in ("gemma2", "deepseek", "t5") for phase in ("forward", "train", "decode")]
CASES += [
    ("gpt2", "prefill"),
    ("whisper", "decode"),
    ("bert-pretraining", "train"),
    ("longformer", "forward"),
    ("marian", "prefill"),
]


def plan_for(model, phase, distinct=None):
    asked = question(phase, past=5)
    sizing = MemoryLimits(
        lambda each: checked_pass(each, asked),
        lambda model: run_memory(model, asked, "fp32", "sdpa"),
        "fp32",
        None,
        0,
    )
    return checked_pass(model, asked), plan_of("it", model, checked_pass(model, asked), sizing)


def recorded(small, **more):
    work = prepare(small.model, small.counted.request, BuildSettings(**more))
    return record(work, "cpu", 1, lambda what, done, total: None)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_operation_of_the_model_is_measured_in_some_stack(name, phase):
    counted, plan = plan_for(MODELS[name], phase)
    found = extrapolated(plan, {small.name: recorded(small) for small in plan.stacks()})
    assert found.differing == ()
    assert found.counted == found.executed > 0
    times = {each.path for each in found.timed if each.seconds}
    costing = {row.path for row in counted.rows if row.times and any(part.flops for part in row.parts)}
    assert sorted(costing - times) == []
    assert times - {""} <= {row.path for row in counted.rows}


def mixture(n_experts, top_k):
    return decoder(
        PreNorm(
            norm=RMS,
            attention=GQA,
            ffn=MixtureOfExperts(n_experts=n_experts, top_k=top_k, expert=GLU(d_ff=24)),
        )
    )


MIXTURE = mixture(5, 2)
TOKENS = torch.arange(18).view(2, 9)


@pytest.mark.long
def test_experts_that_share_memory_compute_what_equal_experts_compute():
    shared, whole = build_model(MIXTURE, device="meta"), build_model(MIXTURE)
    store_experts(shared, 3)
    shared = shared.to_empty(device="cpu")
    fill(shared, torch.Generator().manual_seed(3))
    stored = shared.state_dict()
    assert stored["layers.0.ffn.experts.up_proj.weight"].shape == (3, 24, 32)
    assert whole.state_dict()["layers.0.ffn.experts.up_proj.weight"].shape == (5, 24, 32)
    whole.load_state_dict(
        {name: value[[0, 1, 2, 0, 1]] if ".experts." in name else value for name, value in stored.items()}
    )
    with torch.no_grad():
        torch.testing.assert_close(shared(TOKENS), whole(TOKENS), rtol=0, atol=0)


@pytest.mark.long
def test_a_stack_of_shared_experts_multiplies_as_many_matrices():
    _, plan = plan_for(
        mixture(32, 1), "decode"
    )  # of a token in each of 2 sequences: 30 experts or more get none
    whole, shared = (recorded(plan.pairs[0].more, distinct_experts=distinct) for distinct in (None, 2))
    paths = {f"layers.{layer}.ffn.experts.{name}_proj" for layer in (0, 1) for name in ("gate", "up", "down")}
    assert shared.reached.keys() == whole.reached.keys() == paths
    assert {each.path: each.calls for each in shared.timed if each.path in paths and each.name == "mm"} == {
        path: shared.reached[path] for path in paths
    }
    assert {(each.path, each.calls) for each in whole.timed if each.name == "_grouped_mm"} == {
        (path, 1) for path in paths
    }


def test_what_is_prepared_stores_no_more_experts_than_asked():
    stored = prepare(MIXTURE, Request("forward", 1, 4), BuildSettings(distinct_experts=2)).model.state_dict()
    assert {len(value) for name, value in stored.items() if ".experts." in name} == {2}
