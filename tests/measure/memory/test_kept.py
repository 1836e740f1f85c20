"""Bytes kept for the backward: equal to what torch's autograd saves, storage by storage."""

import pytest

from archcli.load.source import load
from archcli.runtime.memory.models import WitnessSetting
from kept_compared import differences, saved_by_row

MODELS = {
    "gpt2": ["n_layers=4"],
    "llama-3.2-1b": ["n_layers=4"],
    "qwen3-8b": ["n_layers=4"],
    "gemma-2-2b": ["n_layers=7"],  # norms with an offset
    "nemotron-4-15b": ["n_layers=4"],  # LayerNorm with an offset
    "olmo-1b": ["n_layers=4"],  # LayerNorm without a gain
    "olmo-2-7b": ["n_layers=4"],  # one norm over all heads
    "command-r-plus": ["n_layers=3"],  # a gain for each head
    "gpt-j-6b": ["n_layers=3"],
    "gpt-neox-20b": ["n_layers=3"],
    "mixtral-8x7b": ["n_layers=7"],
    "qwen3-30b-a3b": ["n_layers=7"],
    "olmoe-1b-7b": ["n_layers=4"],
    "gpt-oss-20b": ["n_layers=7"],  # experts with biases
    "phi-3.5-moe": ["n_layers=4"],  # experts chosen one after the other
    "dbrx": ["n_layers=4"],
    "albert-base-v2": [],  # every layer has the weights of the first
    "bart-large": [],
    "whisper-small": [],  # convolutions
}
"""Presets that hold every kind of layer between them, with what shortens them."""
SETTINGS = {
    "cuda": WitnessSetting(),
    "cuda-fp32": WitnessSetting(dtype="fp32"),
    "cuda-eager": WitnessSetting(attention="eager"),
}


SHAPES = ((2, 64), (3, 80))


PAIRS = [(name, setting) for name in MODELS for setting in SETTINGS if setting != "cuda-fp32"]


@pytest.mark.sample(12)
@pytest.mark.parametrize(("name", "setting"), PAIRS)
def test_kept_bytes_are_those_that_autograd_saves(name, setting):
    model = load(name, MODELS[name]).model
    for shape in SHAPES:
        assert differences(model, *shape, SETTINGS[setting]) == {}
    assert sum(saved_by_row(model, *SHAPES[0], SETTINGS[setting]).values()) > 0


SMALL = ["vocab_size=320", "d_model=64", "d_ff=64", "head_dim=16"]
ON_CPU = {
    "gpt2": ["n_layers=4"],
    "olmo-2-1b": ["n_layers=3"],
    "mixtral-8x7b": ["n_layers=5", *SMALL],
    "qwen3-30b-a3b": ["n_layers=3", *SMALL],
    "phi-3.5-moe": ["n_layers=3", *SMALL],
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("name", ON_CPU)
def test_kept_bytes_on_a_cpu(name, dtype):
    model = load(name, ON_CPU[name]).model
    for shape in SHAPES:
        assert differences(model, *shape, WitnessSetting(dtype, backend="cpu")) == {}
