"""A network behind another, whose output is normalized by the other's norm once more."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules import MLP, BatchNorm, Decoder, Group, LayerNorm, MultiHeadAttention, PostNorm, RMSNorm

D, WIDTH, T = 8, 3, 5
SIZES = {"attention": MultiHeadAttention(n_heads=2), "ffn": MLP(d_ff=20, bias=True)}


def decoder(layers=2, norm=None, **more):
    norm = norm or LayerNorm()
    layer = PostNorm(norm=norm, **{**SIZES, **more})
    return Decoder(vocab_size=11, d_model=D, norm=norm, groups=(Group(n_layers=layers, layer=layer),))


ADAPTED = decoder(adapter=MLP(d_ff=WIDTH, bias=True))


def test_it_adds_its_matrices_and_biases_and_no_norm():
    added = [archcli.count_params(model).totals["params"] for model in (ADAPTED, decoder())]
    assert added[0] - added[1] == 2 * (2 * D * WIDTH + D + WIDTH)
    products = [
        archcli.count_flops(model, seq_len=T).totals["matmul_flops"] for model in (ADAPTED, decoder())
    ]
    assert products[0] - products[1] == 2 * 2 * T * 2 * D * WIDTH


@pytest.mark.torch
def test_it_computes_the_norm_of_its_sum_with_the_stream():
    import torch

    torch.manual_seed(0)
    layer = archcli.build(decoder(1, adapter=MLP(d_ff=WIDTH, bias=True))).layers[0]
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    x = torch.randn(2, T, D)
    with torch.no_grad():
        y = layer.attention_norm(x + layer.attention(x)[0])
        z = layer.ffn_norm(y + layer.ffn(y))
        torch.testing.assert_close(layer(x)[0], layer.ffn_norm(z + layer.adapter(z)))


@pytest.mark.parametrize("wrong", [{"ffn": None}, {"norm": RMSNorm(weight=False)}, {"norm": BatchNorm()}])
def test_it_needs_a_network_and_a_norm_with_a_weight(wrong):
    with pytest.raises(ArchError, match="an adapter needs an ffn, and a norm"):
        decoder(adapter=MLP(d_ff=WIDTH), **wrong)
