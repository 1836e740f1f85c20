"""Plans: what cannot be is said with what would do; stages, and micro batches under way."""

from dataclasses import replace
from functools import partial

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.wings.serving.memory import inference
from archcli.wings.serving.memory.answers.fit import usual_plan
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.pipeline import in_flight, live_groups, stages_of
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel
from small import decoder
from table import every_row

LLAMA = "llama-3.1-8b"


def told(name, settings=None, **fields):
    with pytest.raises(ArchError) as caught:
        Plan(**fields).check(load(name).model, settings)
    return [(it.path.rpartition(".")[2], it.what, it.hint) for it in caught.value.problems]


@every_row(
    ("fields", "first"),
    [
        ({"dp": 0}, ("dp", "dp 0 is below 1", "1 is the least")),
        # with experts the number's divisors were looked for
        ({"dp": 10**18 + 9, "ep": 3}, ("dp", f"dp {10**18 + 9} is above 1,000,000", "give dp fewer")),
        (
            {"zero": 1},
            (
                "zero",
                "zero 1 shards over the devices of dp and cp, and there is one",
                "state dp or cp, or leave zero out",
            ),
        ),
        ({"pp": 33, "micro_batches": 33}, ("pp", "pp 33 is more than 32 layers", "pp 32 at most")),
        (
            {"pp": 8, "micro_batches": 8, "schedule": "interleaved", "virtual_stages": 5},
            ("pp", "pp 8 x 5 virtual stages is more than 32 layers", "pp 6 at most"),
        ),
        (
            {"pp": 2, "schedule": "interleaved", "micro_batches": 2},
            (
                "virtual_stages",
                "interleaved stages have several groups of layers",
                "state virtual_stages, 2 or more",
            ),
        ),
        (
            {"pp": 2, "virtual_stages": 2},
            (
                "virtual_stages",
                "virtual_stages needs schedule interleaved",
                "leave virtual_stages out, or state schedule with micro_batches, a multiple of pp",
            ),
        ),
        (
            {"pp": 4, "virtual_stages": 2, "schedule": "interleaved", "micro_batches": 6},
            (
                "micro_batches",
                "micro_batches 6 is no multiple of pp 4, as interleaving needs",
                "4 or 8 would do",
            ),
        ),
        (
            {"micro_batches": 2},
            (
                "micro_batches",
                "micro_batches needs a pipeline, and pp is 1",
                "state pp, or leave micro_batches out",
            ),
        ),
        (
            {"pp": 2, "schedule": "interleaved", "micro_batches": 2, "virtual_stages": 17},
            ("pp", "pp 2 x 17 virtual stages is more than 32 layers", "virtual_stages 16 at most"),
        ),
        (
            {"schedule": "interleaved"},
            ("schedule", "schedule needs a pipeline, and pp is 1", "leave schedule out"),
        ),
        ({"tp": 3}, ("d_ff", "tp 3 does not divide d_ff 14,336", "2, 4, 8, 16 or 32 would do")),
        ({"ep": 2, "dp": 2}, ("ep", "ep 2 splits experts, and the model has none", "leave ep out")),
        (
            {"dp_attention": 2},
            ("dp_attention", "dp_attention 2 does not divide tp 1", "tp 2 or a multiple of it"),
        ),
        (
            {"sp": True},
            ("sp", "sp shares tokens among the ranks of tp, and tp is 1", "state tp, or leave sp out"),
        ),
    ],
)
def test_impossible_plans(fields, first):
    assert first in told(LLAMA, **fields)


def test_tokens():
    one = MemorySettings(seq_len=1)
    assert told(LLAMA, one, cp=2) == [("cp", "cp 2 does not divide 1 tokens", "leave cp out")]
    thousand = MemorySettings(seq_len=1000)
    assert told(LLAMA, thousand, cp=3) == [
        ("cp", "cp 3 does not divide 1,000 tokens", "2, 4, 5, 8, 10, 20, 25 or 40 would do")
    ]
    assert told(LLAMA, thousand, cp=4, tp=4, sp=True) == [
        ("seq_len", "sp shares tokens, and tp 4 does not divide 250", "1,008 tokens would do")
    ]
    Plan(cp=4, tp=2, sp=True).check(load(LLAMA).model, thousand)
    chunked = MemorySettings("prefill", seq_len=1001, chunk=334, past=3)
    assert [(path, hint) for path, _, hint in told(LLAMA, chunked, tp=2, sp=True)] == [
        ("seq_len", "1,002 tokens would do"),
        ("past", "4 tokens would do"),
    ]


def test_experts():
    """Eight experts; those of four cannot be spread over two devices."""
    assert told("mixtral-8x7b", dp=2, ep=4) == [
        ("ep", "ep 4 does not divide the 2 devices of a stage, dp x cp x tp", "2 would do")
    ]
    assert told("mixtral-8x7b", dp=3, ep=3)[0][1:] == (
        "ep 3 does not divide n_experts 8",
        "2, 4 or 8 would do",
    )
    Plan(dp=2, tp=2, ep=4).check(load("mixtral-8x7b").model)
    assert Plan(dp=2, tp=2, ep=4).expert_replicas == 1
    assert told("mixtral-8x7b", tp=2, dp=3, ep=4) == [
        ("ep", "ep 4 does not divide the 6 devices of a stage, dp x cp x tp", "2 would do")
    ]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("t5-small", "an encoder-decoder is not cut into stages: all of its decoder reads the encoder"),
        ("albert-base-v2", "layers of different stages would share tie"),
        ("gemma-3n-e2b", "layers of different stages would share kv_from"),
        ("glm-5.2", "layers of different stages would share index_from"),
        ("mt5-base", "an encoder-decoder is not cut into stages: all of its decoder reads the encoder"),
    ],
)
def test_what_is_not_cut_into_stages(name, what):
    assert ("pp", what, "leave pp out") in told(name, pp=2, micro_batches=2)


def test_a_recurrence_is_not_shared_by_tokens():
    assert told("mamba-130m", cp=2)[0][1:] == (
        "cp shares the tokens of attention, and a recurrence reads them in turn",
        "leave cp out",
    )


def test_devices():
    assert Plan(dp=2, cp=3, tp=5, pp=7).devices == 2 * 3 * 5 * 7
    assert Plan(dp=2, tp=8).inputs()["tp"] == 8


def test_stages():
    assert [list(stage.groups) for stage in stages_of(Plan(pp=3), 8)] == [
        [range(3)],
        [range(3, 6)],
        [range(6, 8)],
    ]
    interleaved = stages_of(Plan(pp=2, virtual_stages=2), 8)
    assert [list(stage.groups) for stage in interleaved] == [
        [range(2), range(4, 6)],
        [range(2, 4), range(6, 8)],
    ]
    assert [(stage.is_first, stage.is_last) for stage in interleaved] == [(True, False), (False, True)]


@every_row("step", [1, 2, 3, 7])
@every_row("plan", [Plan(pp=3), Plan(pp=5), Plan(pp=2, virtual_stages=3), Plan(pp=4, virtual_stages=2)])
def test_every_layer_is_in_one_stage(plan, step):
    """Counted one by one: the layers 1, 1 + step, … that each stage has."""
    numbers = range(1, 29, step)
    stages = stages_of(plan, 29)
    one_by_one = [sum(n in group for n in numbers for group in stage.groups) for stage in stages]
    assert [stage.layers_of(numbers) for stage in stages] == one_by_one
    assert sum(one_by_one) == len(numbers)


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8, 16])
def test_micro_batches_in_1f1b(micro_batches):
    """arXiv:2104.04473 section 2.2.1: at most as many as there are stages, one less in each."""
    plan = Plan(pp=4, micro_batches=micro_batches)
    assert [in_flight(plan, i) for i in range(4)] == [min(4 - i, micro_batches) for i in range(4)]


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 2), (2, 2, 4), (4, 2, 8), (4, 3, 12), (8, 2, 8)])
def test_micro_batches_interleaved(p, v, m):
    """Section 2.2.2, as Megatron-LM runs it: 2 (p - i - 1) + (v - 1) p forwards before the first backward."""
    plan = Plan(pp=p, micro_batches=m, schedule="interleaved", virtual_stages=v)
    assert [in_flight(plan, i) for i in range(p)] == [
        min(2 * (p - i - 1) + (v - 1) * p + 1, v * m) for i in range(p)
    ]


def test_which_groups_are_under_way():
    """Two stages of two groups, four micro batches: 1 2 through group 0, 1 2 through group 1, then 3 4."""
    plan = Plan(pp=2, micro_batches=4, schedule="interleaved", virtual_stages=2)
    forwards = [(1, 0), (2, 0), (2, 1), (2, 2), (2, 2)]  # the first of group 1 is done when its fourth begins
    assert list(live_groups(plan, 0))[:3] == forwards[:3]
    assert max(map(sum, live_groups(plan, 0))) == 5
    last = list(live_groups(plan, 1))
    # the last stage computes the gradient of each micro batch of group 1 as soon as it is through
    assert last == [(1, 0), (2, 0), (2, 1), (2, 1), (3, 0), (3, 0), (2, 1), (2, 1)]


def asked(model=None, per_node=8, size=10**9, **settings):
    settings = {"phase": "decode", "batch_size": 4, "seq_len": 8, **settings}
    device = DeviceMemory("ours", size, per_node=per_node)
    return MemoryQuestion(model or decoder(), MemorySettings(**settings), device=device)


@every_row(
    ("n_devices", "asked_for", "plan"),
    [
        # four heads: two or four devices share each matrix
        (4, {}, Plan(tp=4)),
        (2, {}, Plan(tp=2)),
        (8, {}, Plan(dp=2, tp=4)),
        # a link joins two: replicas of pairs, stages of pairs where these do not fit
        (4, {"per_node": 2}, Plan(dp=2, tp=2)),
        (4, {"per_node": 2, "size": 1}, Plan(tp=2, pp=2)),
        (3, {"size": 1}, Plan(pp=3)),
        (3, {"batch_size": 3}, Plan(dp=3)),
        # with fewer sequences than replicas the plan is the same: a larger batch takes no less time
        (4, {"per_node": 2, "batch_size": 1}, Plan(dp=2, tp=2)),
        (3, {"batch_size": 1}, Plan(dp=3)),
        # no link: no matrix is shared
        (2, {"per_node": 1, "batch_size": 1}, Plan(dp=2)),
        # seven stages are more than three layers
        (7, {"batch_size": 1, "size": 1}, Plan(dp=7)),
        (8, {"phase": "train"}, Plan(dp=8, zero=3)),
    ],
)
def test_usual_plans(n_devices, asked_for, plan):
    assert usual_plan(asked(**asked_for), n_devices) == plan


def test_the_first_plan_that_fits():
    """Of four devices in pairs: replicas hold half of the weights, stages of them a fourth or so."""
    needed = {
        plan: replace(asked(per_node=2), plan=plan).answer().needed_bytes
        for plan in (Plan(dp=2, tp=2), Plan(tp=2, pp=2))
    }
    replicas, stages = needed.values()
    assert stages < replicas
    for size, plan in ((replicas, Plan(dp=2, tp=2)), (replicas - 1, Plan(tp=2, pp=2)), (1, Plan(tp=2, pp=2))):
        assert usual_plan(asked(per_node=2, size=size), 4) == plan


LAYER = 2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8
"""Weights of a layer with its two norms."""


@every_row(
    ("pp", "weights", "layers"),
    [
        (1, [3 * LAYER + 2 * 50 * 8 + 8], [3]),
        (2, [2 * LAYER + 50 * 8, LAYER + 50 * 8 + 8], [2, 1]),
        (3, [LAYER + 50 * 8, LAYER, LAYER + 50 * 8 + 8], [1, 1, 1]),
    ],
)
def test_stages_that_serve(pp, weights, layers):
    """The first has the embedding, the last the norm and the head; each the cache of its layers."""
    ranks = replace(asked(phase="serve"), plan=Plan(pp=pp)).ranks()
    parts = {rank.stage: rank.peak.parts for rank in ranks}
    assert [parts[stage]["weights"] for stage in range(pp)] == [2 * n for n in weights]
    of_layer = 4 * 8 * 2 * 2 * 2 * 2  # 4 sequences of 8 tokens, keys and values of 2 heads of 2 in 2 bytes
    assert [parts[stage]["cache"] for stage in range(pp)] == [n * of_layer for n in layers]


def test_a_tied_table_is_on_both_ends():
    ranks = replace(asked(decoder(tied=True), phase="serve"), plan=Plan(pp=3)).ranks()
    weights = {rank.stage: rank.peak.parts["weights"] for rank in ranks}
    assert weights == {0: 2 * (LAYER + 400), 1: 2 * LAYER, 2: 2 * (LAYER + 8 + 400)}


def test_groups_have_their_own_sequences():
    """Two of four devices share attention, and its cache of half of the sequences."""
    grouped = replace(asked(phase="serve"), plan=Plan(tp=4, dp_attention=2)).ranks()[0].peak.parts
    pair = replace(asked(phase="serve", batch_size=2), plan=Plan(tp=2)).ranks()[0].peak.parts
    assert grouped["cache"] == pair["cache"]
    # networks are divided by four
    assert pair["weights"] - grouped["weights"] == 2 * 3 * (3 * 8 * 12) // 4


def test_an_unstated_plan_is_one_device():
    Plan().check(decoder())
    assert Plan().devices == Plan().replicas == 1


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("n_devices", [12, 13, 10**6])
def test_an_engine_that_splits_layers_is_asked_about_no_more_stages_than_layers(n_devices, monkeypatch):
    tried = []
    suits = Plan.suits
    monkeypatch.setattr(Plan, "suits", lambda plan, *of: tried.append(plan.pp) or suits(plan, *of))
    # gpt2 has 12 layers, and llama.cpp gives each device whole ones; one device is tried first
    archcli.kvcache("gpt2", device=f"{n_devices}xm4")
    assert tried == [1, 12]


@pytest.mark.parametrize("device", ["2xh100-sxm", "3xm4-8-core"])
@pytest.mark.parametrize("ask", [archcli.predict, archcli.kvcache, partial(archcli.memory, phase="serve")])
def test_media_that_a_model_does_not_take_are_refused_on_several_devices_too(ask, device):
    with pytest.raises(ArchError, match="gpt2 reads text alone"):
        ask("gpt2", device=device, image=["224x224"])


@pytest.mark.parametrize(("words", "alike"), [(64, True), (50, False)])
def test_ranks_with_equal_shares_have_the_same_passes(words, alike):
    """4 ranks have 16 of 64 words each; of 50 the last has 11, and the others 13."""
    known = TracedModel(decoder(vocab_size=words))
    plan = Plan(tp=4)
    assert (known.share(plan, 3) is known.share(plan, 0)) == alike
    assert known.share(Plan(dp=2, tp=4), 0) is known.share(plan, 0)


def test_plans_of_inference_are_checked_once_for_all_tokens(monkeypatch):
    checked = []
    suits = Plan.suits
    monkeypatch.setattr(Plan, "suits", lambda plan, *of: checked.append(plan) or suits(plan, *of))
    question = asked(decoder(), phase="serve")
    for tokens in (4, 8):
        usual_plan(question.changed(seq_len=tokens), 4)
    assert len(checked) == len(set(checked)) > 0


def test_stages_share_what_is_known_of_a_ranks_weights(monkeypatch):
    """Plans of 2 and 4 stages have 6 stages; the bits of each weight are asked of the model once."""
    asked_of = []
    bits = inference.stored_weights
    monkeypatch.setattr(inference, "stored_weights", lambda *of: asked_of.append(of) or bits(*of))
    question = asked(load("gpt2").model, phase="prefill")
    for stages in (2, 4):
        replace(question, plan=Plan(pp=stages)).answer()
    assert len(asked_of) == 1


def traces_of(monkeypatch, question):
    """How many passes an answer traces."""
    traced, trace = [], inference.trace_memory
    monkeypatch.setattr(inference, "trace_memory", lambda *of: traced.append(of) or trace(*of))
    question.answer()
    return len(traced)


def test_stages_of_equal_layers_are_traced_once(monkeypatch):
    """12 layers on 4 devices: the first three stages are 3 equal layers each, behind the last is the head."""
    question = replace(asked(load("gpt2").model, phase="prefill"), plan=Plan(pp=4))
    assert traces_of(monkeypatch, question) == 2


def test_no_pass_is_traced_of_a_plan_whose_weights_alone_are_too_much(monkeypatch):
    """8 B weights whole are 16 GB, in two stages 8: more than all that one of 8 stages needs."""
    question = asked(load(LLAMA).model, phase="serve")
    device = DeviceMemory("small", 10**9, 8, per_node=1)
    tried, ranks = [], MemoryQuestion.ranks
    monkeypatch.setattr(MemoryQuestion, "ranks", lambda it: tried.append(it.plan) or ranks(it))
    assert usual_plan(replace(question, device=device), 8) == Plan(pp=8)
    assert tried[0] == Plan(pp=8)
    assert {Plan(dp=8), Plan(dp=4, pp=2)}.isdisjoint(tried)
