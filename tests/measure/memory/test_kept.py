"""Bytes kept for the backward: equal to what torch's autograd saves, storage by storage."""

import pytest

from archcli.errors import ArchError
from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.kept import kept_of_model
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.serving.memory.traced import trace_memory
from covering import COVERING
from kept_compared import differences, saved_by_row


def of_layers(key, value, *layers, group=0):
    """Settings of a pattern's layers by number, such as a window that 80 tokens go beyond."""
    return [f"groups.{group}.pattern.{i}.attention.{key}={value}" for i in layers]


MODELS = {
    "gpt2": ["n_layers=4"],
    "llama-3.2-1b": ["n_layers=4"],
    "qwen3-8b": ["n_layers=4"],
    "gemma-2-2b": ["n_layers=7", *of_layers("window", 48, 0)],  # norms with an offset
    "nemotron-4-15b": ["n_layers=4"],  # LayerNorm with an offset
    "olmo-1b": ["n_layers=4"],  # LayerNorm without a gain
    "olmo-2-7b": ["n_layers=4"],  # one norm over all heads
    "command-r-plus": ["n_layers=3"],  # a gain for each head
    "gpt-j-6b": ["n_layers=3"],
    "gpt-neox-20b": ["n_layers=3"],
    "mixtral-8x7b": ["n_layers=7"],
    "qwen3-30b-a3b": ["n_layers=7"],
    "olmoe-1b-7b": ["n_layers=4"],
    "gpt-oss-20b": ["n_layers=7", *of_layers("window", 48, 0)],  # sinks, experts with biases
    "phi-3.5-moe": ["n_layers=4"],  # experts chosen one after the other
    "dbrx": ["n_layers=4"],
    "deepseek-v3": ["groups.1.n_layers=3"],  # latent attention, groups of experts, MTP
    "longcat-flash": ["n_layers=3"],  # experts that compute nothing
    "jetmoe-8b": ["n_layers=3"],  # mixtures of heads
    "mistral-7b-v0.1": ["n_layers=4", "window=32"],
    "gemma-3-1b": ["n_layers=8", *of_layers("window", 48, *range(5))],
    "gpt-neo-1.3b": ["n_layers=4", *of_layers("window", 48, 1)],
    "llama-4-scout": ["n_layers=4", *of_layers("chunk", 48, *range(3))],  # query temperature
    "deepseek-v2-lite": ["groups.1.n_layers=3"],  # values narrower than keys
    "deepseek-v3.2": ["groups.1.n_layers=2"],  # an indexer
    "minicpm3-4b": ["n_layers=4"],
    "mpt-7b": ["n_layers=4"],  # ALiBi
    "bloom-560m": ["n_layers=4"],
    "falcon-7b": ["n_layers=3"],  # one kv head
    "performer": [],  # features of a softmax
    "longformer-base-4096": [],  # a band with gaps
    "t5-small": [],  # biases by distance, one table for all layers
    "umt5-base": [],
    "bert-base-uncased": [],
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


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_kept_bytes_are_those_that_autograd_saves(name, setting):
    model = load(name, MODELS[name]).model
    for shape in SHAPES:
        assert differences(model, *shape, SETTINGS[setting]) == {}
    assert sum(saved_by_row(model, *SHAPES[0], SETTINGS[setting]).values()) > 0


SMALL = ["vocab_size=320", "d_model=64", "d_ff=64", "head_dim=16"]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("setting", [WitnessSetting(), WitnessSetting("fp32", backend="cpu")], ids=str)
@pytest.mark.parametrize("norm", ["{kind: layernorm}", "{kind: rmsnorm, offset: 1}"])
def test_norms_within_experts_keep_the_gain_of_each_token(norm, setting):
    changes = ["n_layers=3", *SMALL, f"ffn.expert.inner_norm={norm}"]
    assert differences(load("mixtral-8x7b", changes).model, 2, 64, setting) == {}


ON_CPU = {
    "gpt2": ["n_layers=4"],
    "olmo-2-1b": ["n_layers=3"],
    "mixtral-8x7b": ["n_layers=5", *SMALL],
    "qwen3-30b-a3b": ["n_layers=3", *SMALL],
    "phi-3.5-moe": ["n_layers=3", *SMALL],
}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("name", ON_CPU)
def test_kept_bytes_on_a_cpu(name, dtype):
    model = load(name, ON_CPU[name]).model
    for shape in SHAPES:
        assert differences(model, *shape, WitnessSetting(dtype, backend="cpu")) == {}


@pytest.mark.sample(0, per=lambda name, **_: name)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", COVERING)
def test_kept_bytes_of_every_preset(name, setting):
    """All layers as they are; windows so short that 64 tokens go beyond them, where one size is stated."""
    assert differences(with_short_window(name), *SHAPES[0], SETTINGS[setting]) == {}


def with_short_window(name):
    """The preset with windows of 32 tokens, where all its windows are of one size."""
    try:
        return load(name, ["window=32"]).model
    except ArchError:
        return load(name).model


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", ["retnet-6.7b", "llama-3.2-1b"])
def test_storages_are_as_many_as_torch_keeps(name):
    """Each chunk of a scan makes its own: by their number the allocator's rounding is bounded."""
    model = load(name, ["n_layers=2"]).model
    traced = trace_memory(model, Request("train", 2, 700), Execution())
    ours = sum(s.record.times * s.record.pieces for s in traced.ledger.saved.values())
    assert ours == len(kept_of_model(model, 2, 700).storages)
