"""Adapters, counted by hand: V 50, D 8, 3 layers, queries 8 wide, keys and values 4, F 12."""

import pytest

from archcli.errors import ArchError
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules import GLU, Group, MixtureOfExperts
from archcli.modules.adapters.lora import LoRA
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.beyond.timed_run import run_memory
from archcli.wings.shapes.symbolic.formula import formula
from archcli.wings.shapes.symbolic.sweep import sweep
from small import decoder, layer

R = 2
Q_AND_V = R * (8 + 8) + R * (8 + 4)
BODY = 3 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 12 + 2 * 8) + 8
PLAIN = BODY + 2 * 50 * 8


def lora(*targets, **fields):
    return LoRA(rank=R, targets=targets or ("q", "v"), **fields)


def totals(model):
    return count_params(model).totals


def flops(model, phase="train"):
    return count_flops(model, Request(phase=phase, batch_size=1, seq_len=5), mask="dense").totals[
        "matmul_flops"
    ]


def test_adapters_are_listed_apart_and_in_the_total():
    found = totals(decoder(lora=lora()))
    assert found["params"] == PLAIN + 3 * Q_AND_V
    assert found["by_group"]["lora"] == found["lora_params"] == found["trainable_params"] == 3 * Q_AND_V
    assert found["by_group"]["attention"] == totals(decoder())["by_group"]["attention"]


def test_without_adapters_everything_trains():
    found = totals(decoder())
    assert (found["lora_params"], found["trainable_params"]) == (0, PLAIN)


@pytest.mark.parametrize(
    ("targets", "params"),
    [
        (("q",), 3 * R * (8 + 8)),
        (("k",), 3 * R * (8 + 4)),
        (("o",), 3 * R * (8 + 8)),
        (("gate", "up", "down"), 3 * 3 * R * (8 + 12)),
        (("all_linear",), 3 * (2 * R * (8 + 8) + 2 * R * (8 + 4) + 3 * R * (8 + 12))),
        (("lm_head",), R * (8 + 50)),
        (("embedding",), R * (50 + 8)),
    ],
)
def test_targets_are_what_they_are_called(targets, params):
    assert totals(decoder(lora=lora(*targets)))["lora_params"] == params


def test_every_expert_has_its_own_and_k_of_them_are_active():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5))
    model = decoder(Group(n_layers=3, layer=layer(ffn=moe)), lora=lora("up"))
    assert totals(model)["lora_params"] == 3 * 6 * R * (8 + 5)
    assert totals(model)["active_params"] == totals(decoder(Group(n_layers=3, layer=layer(ffn=moe))))[
        "active_params"
    ] + 3 * 2 * R * (8 + 5)


TOKENS = 5
ATTENTION = 2 * TOKENS * TOKENS * 4 * (2 + 2)  # scores and mix of 4 heads, 2 wide
LAYER = 2 * TOKENS * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 12)
HEAD = 2 * TOKENS * 8 * 50


def test_a_forward_adds_the_adapters():
    assert flops(decoder(lora=lora()), "forward") == flops(decoder(), "forward") + 3 * 2 * TOKENS * Q_AND_V
    assert flops(decoder(), "forward") == 3 * (LAYER + ATTENTION) + HEAD


def test_training_goes_back_through_frozen_matrices_but_not_below_the_first_adapter():
    forward = 3 * (LAYER + ATTENTION + 2 * TOKENS * Q_AND_V) + HEAD
    down, up = 2 * TOKENS * R * 8, 2 * TOKENS * R * (8 + 4)  # A of q and of v; B of q and of v
    adapters = (
        3 * (2 * up + 2 * down) + (3 - 1) * 2 * down
    )  # dB, dA and B's input in all layers; A's input above the first
    through = (
        (3 - 1) * LAYER + LAYER - 2 * TOKENS * (8 * 8 + 2 * 8 * 4)
    )  # inputs of frozen matrices, but for q, k and v of the first
    attention = (
        3 * 2 * ATTENTION - ATTENTION // 2
    )  # the keys of the first layer are frozen: one product fewer
    assert flops(decoder(lora=lora())) == forward + adapters + through + attention + HEAD


def test_only_a_head_that_is_adapted_goes_back_no_further():
    adapter = 2 * TOKENS * R * (8 + 50)
    expected = 3 * (LAYER + ATTENTION) + HEAD + adapter + 2 * TOKENS * R * (50 + 50 + 8)  # dB, B's input, dA
    assert flops(decoder(lora=lora("lm_head"))) == expected


def test_a_pattern_counts_its_first_layers_apart():
    wide = layer(ffn=GLU(d_ff=20))
    for n_layers in range(1, 6):
        spec = decoder(Group(n_layers=n_layers, pattern=(layer(), wide)), lora=lora())
        one_by_one = tuple(Group(n_layers=1, layer=(layer(), wide)[i % 2]) for i in range(n_layers))
        assert flops(spec) == flops(decoder(*one_by_one, lora=lora()))


def test_the_cache_is_the_same():
    assert (
        count_kv_cache(decoder(lora=lora()), 64).totals["elements"]
        == count_kv_cache(decoder(), 64).totals["elements"]
    )


def test_gradients_are_kept_of_adapters_alone():
    found = run_memory(decoder(lora=lora()), Request("train", 1, 5), "fp32", "eager")
    assert found["gradients_bytes"] == 4 * 3 * Q_AND_V
    assert found["weights_bytes"] == 4 * (PLAIN + 3 * Q_AND_V)


def test_closed_forms_know_the_rank():
    found = formula(decoder(lora=lora(alpha=4.0)), seq_len=5)
    rank = next(symbol for symbol in found.values if symbol.name == "rank")
    values = {**found.values, rank: 7}
    assert found.params.subs(values) == PLAIN + 3 * Q_AND_V * 7 // R


def test_a_sweep_takes_ranks():
    found = sweep(decoder(lora=lora(alpha=4.0)), {"rank": [1, 2, 7]}, seq_len=5)
    assert found.params.tolist() == [PLAIN + 3 * Q_AND_V * rank // R for rank in (1, 2, 7)]


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ((), "targets must not be empty"),
        (("q", "vv"), "no projection of this model is called 'vv'"),
        (("router",), "no projection of this model is called 'router'"),
        (("tokens",), "no projection of this model is called 'tokens'"),
    ],
)
def test_targets_that_are_not_there_are_told(targets, said):
    with pytest.raises(ArchError, match=said):
        decoder(lora=LoRA(rank=R, targets=targets))
