"""Merged attention and layers that go by a delay: figures worked out, decoding, and what is refused."""

import pytest
import torch

import archcli
from archcli.errors import ArchError

D, HEADS, KV, WIDTH, D_FF, VOCAB = 16, 4, 2, 6, 20, 50
NETWORK = 3 * D * D_FF
QUERIES, KEYS = 2 * D * HEADS * WIDTH, 2 * D * KV * WIDTH
"""Parameters of Wq and Wo, and of Wk and Wv."""


def pair(**attention):
    """An encoder of one layer and a decoder of one with merged attention; the table is the head."""
    seen = {"kind": "gqa", "n_heads": HEADS, "n_kv_heads": KV, "head_dim": WIDTH, "causal": False}
    merged = {"kind": "merged", "n_heads": HEADS, "n_kv_heads": KV, "head_dim": WIDTH, **attention}
    layers = (
        {"kind": "pre_norm", "attention": mixer, "ffn": {"kind": "glu", "d_ff": D_FF}}
        for mixer in (seen, merged)
    )
    reads, writes = ({"groups": [{"n_layers": 1, "layer": layer}]} for layer in layers)
    return {
        "kind": "encoder_decoder",
        "vocab_size": VOCAB,
        "d_model": D,
        "norm": "rmsnorm",
        "embedding": {"tied": True},
        "encoder": reads,
        "decoder": writes,
    }


def test_one_set_of_projections_serves_both_sequences():
    layer = QUERIES + KEYS + NETWORK + 2 * D
    assert archcli.count_params(pair()).totals["params"] == VOCAB * D + 2 * (layer + D)


def test_pairs_are_those_of_own_tokens_and_all_of_the_source():
    new, source, heads = 10, 7, 2 * 2 * HEADS * WIDTH  # scores and mix, two FLOPs each
    encoder = 2 * source * (QUERIES + KEYS + NETWORK) + heads * source * source
    # keys and values of own tokens and of the source by the same matrices
    projected = 2 * (new * QUERIES + (new + source) * KEYS + new * NETWORK)
    scored = heads * (new * (new + 1) // 2 + new * source)
    head = 2 * new * D * VOCAB
    counted = archcli.count_flops(pair(), seq_len=new, source_len=source)
    assert counted.totals["matmul_flops"] == encoder + projected + scored + head
    near = archcli.count_flops(pair(window=3), seq_len=new, source_len=source)
    assert counted.totals["matmul_flops"] - near.totals["matmul_flops"] == heads * (55 - (3 * new - 3))


def test_the_source_is_cached_once_and_decoding_projects_it_no_more():
    cache = archcli.count_kv_cache(pair(window=3), context=10, source_len=7).totals
    assert (cache["elements"], cache["cross_elements"]) == (3 * 2 * KV * WIDTH, 7 * 2 * KV * WIDTH)
    decoded = archcli.count_flops(pair(), phase="decode", past=9, source_len=7).totals["matmul_flops"]
    scored = 2 * 2 * HEADS * WIDTH * (10 + 7)
    assert decoded == 2 * (QUERIES + KEYS + NETWORK) + scored + 2 * D * VOCAB


@pytest.mark.sample(1, whole=True)
@pytest.mark.torch
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("window", [None, 3])
@torch.inference_mode()
def test_decoding_gives_the_logits_of_one_pass(attention, window):
    norm = {"qk_norm": {"per": "head"}, "position": "rope", "bias": True}
    model = archcli.build(pair(**norm, **({"window": window} if window else {})), attention=attention).eval()
    tokens, source = torch.randint(0, VOCAB, (2, 10)), torch.randint(0, VOCAB, (2, 7))
    expected = model(tokens, source)
    logits, cache = model.prefill(tokens[:, :6], source)
    assert torch.allclose(logits, expected[:, 5:6], atol=1e-5)
    for i in range(6, 10):
        logits, cache = model.decode(tokens[:, i : i + 1], cache)
        assert torch.allclose(logits, expected[:, i : i + 1], atol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"causal": False}, "causal: false is not defined for merged attention"),
        ({"clip": 2.0}, "clip is not defined for merged attention"),
        ({"value_gate": {"top_k": 2}}, "value_gate is not defined for merged attention"),
        ({"position": {"kind": "shaw", "max_distance": 3}}, "position is not defined for merged attention"),
        ({"qk_norm": {"when": "after_rope"}, "position": "rope"}, "a norm after RoPE is not defined"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_go_with_merged_attention_is_refused(given, message):
    with pytest.raises(ArchError, match=message):
        archcli.count_params(pair(**given))


def test_merged_attention_of_a_decoder_alone_has_no_source():
    layer = {"kind": "pre_norm", "attention": {"kind": "merged", "n_heads": HEADS}}
    model = {
        "vocab_size": VOCAB,
        "d_model": D,
        "norm": "rmsnorm",
        "groups": [{"n_layers": 1, "layer": layer}],
    }
    with pytest.raises(ArchError, match="merged attention needs the encoder's output"):
        archcli.count_params(model)


def timed(kind="timed_pre_norm", **fields):
    """A decoder of two layers whose networks are scaled by a delay."""
    fields = {"rank": 5, "delay": 6, **fields} if kind == "timed_pre_norm" else fields
    mixer = {"kind": "mha", "n_heads": HEADS, "position": "rope"}
    layer = {"kind": kind, "attention": mixer, "ffn": {"kind": "glu", "d_ff": D_FF}, **fields}
    return {"vocab_size": VOCAB, "d_model": D, "norm": "rmsnorm", "groups": [{"n_layers": 2, "layer": layer}]}


def test_two_matrices_of_a_delay_cost_a_product_of_a_pass():
    more = (
        archcli.count_params(timed()).totals["params"]
        - archcli.count_params(timed("pre_norm")).totals["params"]
    )
    assert more == 2 * 2 * 5 * D
    for sizes in ({"seq_len": 1}, {"seq_len": 9, "batch_size": 3}):
        flops = [archcli.count_flops(timed(kind), **sizes).totals for kind in ("timed_pre_norm", "pre_norm")]
        assert flops[0]["matmul_flops"] - flops[1]["matmul_flops"] == 2 * 2 * 2 * 5 * D
        assert flops[0]["by_component"]["time_condition"] == 2 * 2 * 2 * 5 * D


@pytest.mark.torch
@torch.inference_mode()
def test_the_factors_of_a_delay_are_those_of_its_sinusoid():
    block = archcli.build(timed()).get_submodule("layers.0")
    x = torch.randn(1, 4, D)
    turns = 6 * 10000.0 ** (-torch.arange(D // 2) / (D // 2))
    low = torch.nn.functional.gelu(block.time_condition_down(torch.cat([turns.cos(), turns.sin()])))
    factors = 1 + block.time_condition_up(low)
    mixed = x + block.attention(block.attention_norm(x))[0]
    expected = mixed + block.ffn(block.ffn_norm(mixed) * factors)
    assert torch.allclose(block(x)[0], expected, atol=1e-5)


def test_a_delay_without_a_network_is_refused():
    layer = {"kind": "timed_pre_norm", "delay": 6, "attention": {"kind": "mha", "n_heads": HEADS}}
    model = {
        "vocab_size": VOCAB,
        "d_model": D,
        "norm": "rmsnorm",
        "groups": [{"n_layers": 1, "layer": layer}],
    }
    with pytest.raises(ArchError, match="the time scales what ffn reads"):
        archcli.count_params(model)
