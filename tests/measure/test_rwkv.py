"""RWKV-4 as its paper counts it: Table 2 of arXiv:2305.13048, and its state."""

import pytest

import archcli
from archcli.modules.spec.request import Request

VOCAB = 50277
PUBLISHED = {
    "169M": (12, 768, "1.693e+08", "2.613e+08"),
    "430M": (24, 1024, "4.304e+08", "7.573e+08"),
    "7B": (32, 4096, "7.393e+09", "1.437e+10"),
}
"""Layers, width, parameters and FLOPs of a token, as printed."""

TOKENS = 64


def model(layers, width):
    return archcli.load(
        {
            "model_type": "rwkv",
            "architectures": ["RwkvForCausalLM"],
            "num_hidden_layers": layers,
            "hidden_size": width,
            "vocab_size": VOCAB,
        }
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_flops_of_a_token(name):
    """Its FLOPs are those of the matrices, 2 for each number: 4 D x D and the network's, and the head."""
    layers, width, params, flops = PUBLISHED[name]
    spec = model(layers, width)
    per_token = archcli.count_flops(spec, seq_len=TOKENS).totals["matmul_flops"] // TOKENS
    time_mixing, channel_mixing = 4 * width**2, width**2 + 2 * width * 4 * width
    assert per_token == 2 * (layers * (time_mixing + channel_mixing) + VOCAB * width)
    assert f"{per_token:.3e}" == flops
    assert f"{archcli.count_params(spec).totals['params']:.3e}" == params
    decoded = archcli.count_flops(spec, Request(phase="decode", past=9)).totals["matmul_flops"]
    assert decoded == per_token


def test_its_state_is_five_numbers_for_each_channel_and_layer():
    cached = archcli.count_kv_cache(model(3, 16), context=1000, batch_size=2).totals
    assert cached["elements"] == cached["state_elements"] == 2 * 3 * 5 * 16
    assert cached["by_content"] == {"convolution": 2 * 3 * 2 * 16, "recurrent state": 2 * 3 * 3 * 16}
