"""Each preset, made small, gives the logits of the transformers class of its config, made small the same way.

That tests what no count shows: eps, theta, scalings, pairings, softcaps, activations, the order of norms, how experts are chosen.
The configs are those of tests/oracle; weights are random, large enough that each setting is felt, and go by the names of tests/parity.
"""

import json
import zlib
from pathlib import Path

import pytest
import torch

from archcli.load.source import load
from archcli.modules import settings, substitute
from archcli.runtime import build_model
from parity.families import FAMILIES
from parity.family import Family
from parity.maps import translate
from parity.witness import randomise, tensors, their_model

CONFIGS = Path(__file__).parents[1] / "oracle" / "configs"
# cs336-small is missing: it has no transformers class, for Llama pairs the dims of a head by halves
WEIGHTS = {
    "deepseek-v3": "deepseek-v3",
    "falcon-7b": "falcon-7b",
    "gemma-2-9b": "gemma2",
    "gemma-2b": "gemma",
    "gpt-j-6b": "gpt-j",
    "gpt-neox-20b": "gpt-neox",
    "gpt2": "gpt2",
    "llama-2-7b": "llama",
    "llama-3.1-405b": "llama",
    "llama-3.1-70b": "llama",
    "llama-3.1-8b": "llama",
    "llama-3.2-1b": "llama",
    "mistral-7b-v0.1": "mistral",
    "mixtral-8x7b": "mixtral",
    "olmo-2-7b": "olmo2",
    "phi-2": "phi-2",
    "qwen2-7b": "qwen2",
    "qwen3-0.6b": "qwen3",
    "qwen3-30b-a3b": "qwen3-moe",
    "qwen3-8b": "qwen3",
}
"""Whose table of weight names a preset uses."""

LENGTH = 96  # far beyond the window
TOLERANCE = 1e-5  # of the largest logit
FAINT = 0.003  # embeddings loud enough to reach the softcaps, then so faint that the first norm feels its eps
SMALL = {"n_layers": 2, "vocab_size": 61, "d_ff": 48, "n_heads": 4, "n_kv_heads": 2, "n_experts": 32, "window": 7}
NAMES = {
    "vocab_size": ("vocab_size",),
    "d_ff": ("intermediate_size", "moe_intermediate_size", "n_inner", "ffn_hidden_size"),
    "n_heads": ("num_attention_heads", "n_head", "num_kv_heads"),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "window": ("sliding_window",),
}
UNSTATED = {"n_inner", "ffn_hidden_size"}
"""Keys that configs leave out where d_ff is 4 d_model, as it is not here."""


def small(model):
    """The preset with small sizes; heads stay as wide as they are."""
    found = [(path, path.split(".")[-1], value) for path, value in settings(model)]
    heads = next(value for _, key, value in found if key == "n_heads")
    sizes = {path: SMALL[key] for path, key, value in found if key in SMALL and value is not None}
    return substitute(model, {**sizes, "d_model": SMALL["n_heads"] * model.d_model // heads})


def small_config(name, model):
    """The config with the sizes of the small model."""
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    for ours, theirs in NAMES.items():
        config.update({key: SMALL[ours] for key in theirs if config.get(key) is not None or key in UNSTATED})
    config.update({key: model.d_model for key in ("hidden_size", "n_embd") if key in config})
    config.update({key: SMALL["n_layers"] * len(model.groups) for key in ("num_hidden_layers", "n_layer") if key in config})
    if "first_k_dense_replace" in config:
        config["first_k_dense_replace"] = SMALL["n_layers"]
    if "num_key_value_heads" in config:
        attention = model.groups[0].blocks[0].attention
        config["num_key_value_heads"] = getattr(attention, "kv_heads", SMALL["n_heads"])
    return config


def shapes(model):
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", WEIGHTS)
def test_computes_what_transformers_computes(name):
    spec, base = small(load(name).model), FAMILIES[WEIGHTS[name]]
    family = Family(small_config(name, spec), spec, base.weights, quiet=base.quiet)
    theirs, ours = their_model(family), build_model(substitute(spec, {"mtp": None}), attention="eager").eval()
    seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    with torch.no_grad():
        randomise(tensors(theirs), family, seed)
        tokens = torch.randint(spec.vocab_size, (2, LENGTH), generator=seed)
        for loudness in (1, FAINT):
            theirs.get_input_embeddings().weight.mul_(loudness)
            ours.load_state_dict(translate(tensors(theirs), family.weights, shapes(ours)))
            expected = theirs(tokens, use_cache=False).logits
            assert (ours(tokens) - expected).abs().max() <= TOLERANCE * expected.abs().max()
