"""Layers that share their weights: stored once, run and counted every time."""

import pytest

import archcli
from archcli.modules import MLP, Decoder, Group, LayerNorm, LoRA, MultiHeadAttention, PreNorm

NORM = LayerNorm()
BLOCK = PreNorm(norm=NORM, attention=MultiHeadAttention(n_heads=2), ffn=MLP(d_ff=20))
LAYER = 4 * 8 * 8 + 2 * 8 * 20 + 2 * 2 * 8
"""Four projections, two matrices, two norms with weight and bias."""


def decoder(*groups, **options):
    return Decoder(vocab_size=11, d_model=8, norm=NORM, groups=groups, **options)


def test_weights_are_counted_once_and_flops_every_time():
    own = decoder(Group(n_layers=6, layer=BLOCK))
    tied = decoder(Group(n_layers=6, layer=BLOCK, tie=True))
    counts = [archcli.count_params(model).totals["params"] for model in (own, tied)]
    assert counts == [6 * LAYER + 2 * 11 * 8 + 2 * 8, LAYER + 2 * 11 * 8 + 2 * 8]
    for count in (archcli.count_flops, archcli.count_kv_cache):
        size = {"seq_len": 9} if count is archcli.count_flops else {"context": 9}
        figures = [
            {key: value for key, value in count(model, **size).totals.items() if "params" not in key}
            for model in (own, tied)
        ]
        assert figures[0] == figures[1]


@pytest.mark.sample(1, whole=True)
@pytest.mark.torch
@pytest.mark.parametrize("pattern", [(BLOCK,), (BLOCK, BLOCK)])
def test_what_is_built_has_one_set_of_weights_and_runs_it_again(pattern):
    tied = decoder(Group(n_layers=6, pattern=pattern, tie=True), Group(n_layers=1, layer=BLOCK))
    own = decoder(Group(n_layers=6, pattern=pattern), Group(n_layers=1, layer=BLOCK))
    import torch

    model, plain = archcli.build(tied), archcli.build(own)
    assert sum(p.numel() for p in model.parameters()) == archcli.count_params(tied).totals["params"]
    state = model.state_dict()
    for i in range(6):
        first = f"layers.{i % len(pattern)}."
        copies = {key.replace(first, f"layers.{i}.") for key in state if key.startswith(first)}
        state |= {key: state[key.replace(f"layers.{i}.", first)] for key in copies}
    plain.load_state_dict(state)
    tokens = torch.arange(10).view(2, 5)
    torch.testing.assert_close(model(tokens), plain(tokens))


@pytest.mark.torch
def test_layers_that_share_their_weights_share_their_adapters():
    """As the one module that they are in transformers (ALBERT): A [2, 8] and B [8, 2] once."""
    tied = decoder(Group(n_layers=6, layer=BLOCK, tie=True), lora=LoRA(rank=2, targets=("q",)))
    assert archcli.count_params(tied).totals["lora_params"] == 2 * (8 + 8)
    trained = [p.numel() for p in archcli.build(tied).parameters() if p.requires_grad]
    assert sum(trained) == 2 * (8 + 8)


@pytest.mark.long
@pytest.mark.torch
def test_layers_that_share_weights_are_verified_like_others():
    from asking import ask, failures

    assert failures(ask(decoder(Group(n_layers=5, pattern=(BLOCK, BLOCK), tie=True)))) == []


@pytest.mark.long
@pytest.mark.torch
def test_encoder_and_decoder_share_nothing_with_each_other():
    heads = {"kind": "mha", "n_heads": 2}
    layer = {"kind": "pre_norm", "attention": heads, "ffn": {"kind": "mlp", "d_ff": 20}}
    crossed = {**layer, "cross_attention": {"n_heads": 2}}
    given = {
        "kind": "encoder_decoder",
        "vocab_size": 11,
        "d_model": 8,
        "norm": "layernorm",
        "encoder": {"groups": [{"n_layers": 3, "layer": {**layer, "attention": {**heads, "causal": False}}}]},
        "decoder": {"groups": [{"n_layers": 3, "layer": crossed}]},
    }
    for half in ("encoder", "decoder"):
        given[half]["groups"][0]["tie"] = True
    from asking import ask, failures

    model = archcli.build(archcli.load(given))
    assert sum(p.numel() for p in model.parameters()) == archcli.count_params(given).totals["params"]
    assert failures(ask(archcli.load(given))) == []
