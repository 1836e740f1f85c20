"""Transformer-XL's attention against its definition, pair by pair, in a decoder and through its cache."""

import math

import pytest
import torch

import archcli

WIDTH, HEADS, HEAD_DIM, TOKENS = 12, 3, 4, 7
SPEC = {
    "vocab_size": 11,
    "d_model": WIDTH,
    "norm": {"kind": "layernorm"},
    "groups": [
        {
            "n_layers": 1,
            "layer": {"kind": "pre_norm", "attention": {"kind": "transformer_xl", "n_heads": HEADS}},
        }
    ],
}


def sinusoid(distance):
    """All sines, then all cosines, of frequencies 10000^(-2i/D)."""
    angles = [distance / 10000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])


def by_definition(weights, x):
    """arXiv:1901.02860 section 3.3: softmax over j <= i of (q_i + u) k_j + (q_i + v) r_(i-j), over sqrt d."""
    projected = {name: (x @ weights[f"{name}_proj.weight"].T).view(TOKENS, HEADS, HEAD_DIM) for name in "qkv"}
    u, v = weights["content_bias.weight"], weights["distance_bias.weight"]
    out = torch.zeros(TOKENS, HEADS, HEAD_DIM)
    for head in range(HEADS):
        q, k, values = (projected[name][:, head] for name in "qkv")
        for i in range(TOKENS):
            scores = []
            for j in range(i + 1):
                r = (weights["r_proj.weight"] @ sinusoid(i - j)).view(HEADS, HEAD_DIM)[head]
                scores.append((q[i] + u[head]) @ k[j] + (q[i] + v[head]) @ r)
            out[i, head] = torch.softmax(torch.stack(scores) / HEAD_DIM**0.5, 0) @ values[: i + 1]
    return out.reshape(TOKENS, WIDTH) @ weights["o_proj.weight"].T


@pytest.fixture
def layer():
    torch.manual_seed(0)
    model = archcli.build(SPEC)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.layers[0].attention


def test_scores_are_those_of_the_definition(layer):
    x = torch.randn(1, TOKENS, WIDTH)
    with torch.inference_mode():
        ours, _ = layer(x)
        theirs = by_definition(dict(layer.named_parameters()), x[0])
    assert torch.allclose(ours[0], theirs, rtol=1e-5, atol=1e-5)


def test_parameters_and_products_of_a_layer():
    counted = archcli.count_params({**SPEC, "name": "layer"}).totals["params"]
    # q, k, v, o and r; u and v; a norm and the last; the table and the head
    assert counted == 5 * 12 * 12 + 2 * 3 * 4 + 2 * (2 * 12) + 2 * 11 * 12
    flops = archcli.count_flops(SPEC, seq_len=7, mask="dense").totals["matmul_flops"]
    # four matrices of 7 tokens and one of 7 distances; contents, distances and mix of 7 x 7; the head
    assert flops == 2 * 5 * 7 * 12 * 12 + 3 * 2 * 3 * 7 * 7 * 4 + 2 * 7 * 12 * 11


def test_gopher_has_its_published_size():
    """arXiv:2112.11446 table 1: 80 layers of 128 heads of 128, d_model 16384, 32,000 words: 280B."""
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "transformer_xl", "n_heads": 128},
        "ffn": {"kind": "mlp", "d_ff": 65536},
    }
    gopher = {
        "vocab_size": 32000,
        "d_model": 16384,
        "norm": {"kind": "rmsnorm"},
        "embedding": {"tied": True},
        "groups": [{"n_layers": 80, "layer": layer}],
    }
    params = archcli.count_params(gopher).totals["params"]
    assert round(params / 1e9) == 280
