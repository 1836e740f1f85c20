"""What a recording must be, whatever the machine and however long things take.

Complete, consistent with the rows, and gone afterwards.
"""

import gc
import os

import pytest
import torch

from archcli.load.source import load_text
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile.machine import threads
from archcli.wings.running.runtime.profile.record import record
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.recorded.classes import TimeClass
from combinations.hybrids import hybrid
from recordings import MODELS, PHASES, RUNS, profiled

CASES = [("gpt2", phase, attention) for phase in PHASES for attention in ("sdpa", "eager")]
CASES += [
    (name, phase, "sdpa" if phase == "train" else "eager")
    for name, phase in RUNS
    if name != "gpt2" and phase in {"train", "decode"}
]
CASES += [(name, "prefill", "sdpa") for name in ("gemma2", "deepseek", "t5")] + [
    (name, "forward", "eager") for name in ("whisper", "linear")
]


ONE_A_PHASE = pytest.mark.sample(1, per=lambda case: case[1])


@pytest.fixture(
    scope="module", params=[pytest.param(case, marks=ONE_A_PHASE, id="-".join(case)) for case in CASES]
)
def case(request):
    """(counted pass, recording) of one model in one phase."""
    name, phase, attention = request.param
    return profiled(MODELS[name], phase, attention)


def costing(rows):
    return {row.path: row for row in rows if row.parts and row.times}


@pytest.mark.long
@pytest.mark.sample(1)
def test_the_trace_shows_every_operation_the_census_has(case):
    _, recording = case
    assert recording.differing == ()
    assert recording.counted == recording.executed > 0


@pytest.mark.long
@pytest.mark.sample(1)
def test_what_ran_is_what_was_counted(case):
    counted, recording = case
    ran = {each.path: each for each in recording.ran}
    rows = costing(counted.rows)
    assert {path: ran[path].inputs for path in rows} == {path: row.inputs for path, row in rows.items()}
    assert {folded_path(each.path) for each in recording.ran if each.op.parts(*each.inputs)} == {
        folded_path(path) for path in rows
    }


@pytest.mark.sample(1)
def test_what_ran_costs_what_was_counted(case):
    counted, recording = case
    ran = sum(part.unmasked_flops for each in recording.ran for part in each.op.parts(*each.inputs))
    assert ran == sum(row.times * part.unmasked_flops for row in counted.rows for part in row.parts) > 0


@pytest.mark.sample(1)
def test_every_time_belongs_to_a_row_and_a_class(case):
    _, recording = case
    assert {timed.path for timed in recording.timed} <= {each.path for each in recording.ran} | {""}
    assert {timed.op_class for timed in recording.timed} <= set(TimeClass)
    assert {timed.op_class for timed in recording.timed if not timed.path} <= {"framework"}


def test_every_row_that_computes_was_timed(case):
    counted, recording = case
    timed = {each.path for each in recording.timed if each.seconds > 0}
    assert [
        path
        for path, row in costing(counted.rows).items()
        if path not in timed and any(part.flops for part in row.parts)
    ] == []


def classes(recording, path):
    return {(timed.name, timed.op_class) for timed in recording.timed if timed.path == path}


@pytest.mark.long
def test_eager_attention_is_timed_in_parts():
    found = classes(profiled(MODELS["gpt2"], "forward", "eager")[1], "layers.0.attention.attend")
    assert {("bmm", "contraction"), ("_softmax", "normalization"), ("mul", "normalization")} <= found


@pytest.mark.long
def test_fused_attention_is_a_class_of_its_own_with_the_mask_it_needs():
    found = classes(profiled(MODELS["windowed"], "forward", "sdpa")[1], "layers.0.attention.attend")
    assert {op_class for _, op_class in found} == {"fused_attention"}
    assert len(found) > 1


@pytest.mark.long
def test_a_softcap_is_timed_as_elementwise():
    found = classes(profiled(MODELS["gemma2"], "forward", "sdpa")[1], "layers.0.attention.attend")
    assert {("tanh", "elementwise"), ("_softmax", "normalization"), ("bmm", "contraction")} <= found


@pytest.mark.long
def test_a_linear_layer_goes_backward_as_contraction_and_its_bias_as_a_reduction():
    found = classes(profiled(MODELS["gpt2"], "train")[1], "layers.0.ffn.up_proj")
    assert found == {("addmm", "contraction"), ("mm", "contraction"), ("sum", "normalization")}


@pytest.mark.long
def test_a_convolution_is_a_contraction_there_and_back():
    found = classes(profiled(MODELS["whisper"], "train")[1], "encoder.front_end.conv2")
    assert {name: op_class for name, op_class in found if name.startswith("convolution")} == {
        "convolution": "contraction",
        "convolution_backward": "contraction",
    }


@pytest.mark.long
def test_linear_attention_has_products_sums_and_a_division():
    found = classes(profiled(MODELS["linear-decoder"], "forward")[1], "layers.0.attention.attend")
    assert {("bmm", "contraction"), ("sum", "normalization"), ("div", "elementwise")} <= found


@pytest.mark.long
@pytest.mark.parametrize("phase", ["forward", "train"])
def test_a_scan_has_products_what_goes_from_token_to_token_and_the_rest(phase):
    model = load_text(hybrid("mamba2"), "mamba2.yaml").model
    found = classes(profiled(model, phase)[1], "layers.0.mixer.scan")
    assert {("cumsum", "recurrence"), ("exp", "elementwise")} <= found
    assert found & {("bmm", "contraction"), ("baddbmm", "contraction")}


def encoder_ran(phase, past):
    return {each.path.split(".")[0] for each in profiled(MODELS["t5"], phase, past=past)[1].ran} & {
        "encoder",
        "decoder",
        "source",
    }


@pytest.mark.long
def test_an_encoder_runs_only_where_no_cache_holds_its_source():
    assert (
        encoder_ran("forward", 0)
        == encoder_ran("prefill", 0)
        == encoder_ran("decode", 0)
        == {"encoder", "decoder", "source"}
    )
    assert encoder_ran("prefill", 5) == encoder_ran("decode", 5) == {"decoder"}


@pytest.mark.long
def test_everything_a_model_answers_has_a_gradient():
    recording = profiled(MODELS["bert-pretraining"], "train")[1]
    assert {"lm_head", "classifier", "pooler"} <= {
        timed.path for timed in recording.timed if timed.phase == "backward"
    }


@pytest.mark.long
def test_gradients_that_meet_are_summed_in_a_phase_of_their_own():
    recording = profiled(MODELS["gpt2"], "train")[1]
    assert {timed.op_class for timed in recording.timed if timed.phase == "sums"} == {"elementwise"}


@pytest.mark.long
def test_nothing_stays_switched_on(monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    before = dict(os.environ), torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()
    work = prepare(MODELS["gpt2"], Request("forward", 1, 4))
    plain = [set(vars(module)) for module in work.model.modules()]
    with threads(2):
        record(work, "cpu", 1, lambda what, done, total: None)
    assert before == (
        dict(os.environ),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
    )
    assert [set(vars(module)) for module in work.model.modules()] == plain
    assert not torch.autograd._profiler_enabled()
    assert gc.isenabled()


def stopping_before_pair(number):
    def tick(what, done, total):
        if what == "timing" and done == number:
            raise KeyboardInterrupt

    return tick


@pytest.mark.long
def test_an_interrupt_keeps_what_was_measured():
    recording = record(prepare(MODELS["gpt2"], Request("forward", 1, 4)), "cpu", 5, stopping_before_pair(2))
    assert recording.partial
    assert len(recording.plain_s) == len(recording.traced_s) == 2


@pytest.mark.long
def test_an_interrupt_before_the_first_pair_is_passed_on():
    work = prepare(MODELS["gpt2"], Request("forward", 1, 4))
    with pytest.raises(KeyboardInterrupt):
        record(work, "cpu", 5, stopping_before_pair(0))
    assert gc.isenabled()
    assert not any("op_hook" in vars(module) for module in work.model.modules())
