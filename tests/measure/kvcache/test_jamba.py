"""The cache of Jamba as its paper states it: Table 1 of arXiv:2403.19887, 256K tokens in 16 bits."""

import pytest

import archcli

GIB = 2**30
PUBLISHED = {"mistral": 32, "mixtral": 32, "jamba": 4}
"""GB of keys and values at 256K tokens, which are GiB. Their class defaults are the models of the paper."""


def model(kind, **more):
    stated = {"model_type": kind, "architectures": ["TheirsForCausalLM"], "hidden_size": 4096}
    return archcli.load({**stated, **more})


@pytest.mark.parametrize("kind", PUBLISHED)
def test_keys_and_values_of_256k_tokens(kind):
    window = {"sliding_window": None} if kind != "jamba" else {}
    totals = archcli.count_kv_cache(model(kind, **window), context=256 * 1024, dtype="bf16").totals
    assert totals["kv_bytes"] == PUBLISHED[kind] * GIB


def test_the_state_of_its_28_mamba_layers_is_constant():
    """Each has 8,192 channels with 16 states and 4 inputs of the convolution."""
    short, long = (archcli.count_kv_cache(model("jamba"), context=n).totals for n in (1, 256 * 1024))
    assert short["state_elements"] == long["state_elements"] == 28 * 8192 * (16 + 4)
