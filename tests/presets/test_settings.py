"""Each preset, made small, gives the logits of the transformers class of its config, made small the same way.

That tests what no count shows: eps, theta, scalings, pairings, softcaps, activations, the order of norms, how
experts are chosen. The configs are those of tests/oracle; weights are random, large enough that each setting
is felt, and are named as the importer states.
"""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from archcli.load.source import load
from archcli.modules import settings, substitute
from archcli.modules.models.model import inferring
from archcli.modules.models.stack import stacks
from archcli.wings.running.runtime import build_model
from archcli.wings.running.runtime.weights.compare import translate
from parity.families import FAMILIES
from parity.witness import SOURCE, answer, random_source, randomise, tensors, their_model

CONFIGS = Path(__file__).parents[1] / "oracle" / "configs"
# cs336-small is missing: it has no transformers class, for Llama pairs the dims of a head by halves; a
# Performer has none at all, and the class of Longformer computes its window in blocks that a small one does
# not fill
RECORDS = {
    "afm-on-device": "qwen3",
    "bert-base-uncased": "bert",
    "bert-large-uncased": "bert",
    "bloom-7b1": "bloom",
    "chatglm2-6b": "glm",
    "command-r-v01": "command-r",
    "deepseek-r1": "deepseek-v3",
    "deepseek-v2-lite": "deepseek-v2",
    "deepseek-v3": "deepseek-v3",
    "falcon-7b": "falcon-7b",
    "gemma-2-9b": "gemma2",
    "gemma-2b": "gemma",
    "gemma-3-1b": "gemma3",
    "gemma-3-4b": "gemma3",
    "glm-4-9b": "glm",
    "gpt-1": "gpt-1",
    "gpt-j-6b": "gpt-j",
    "gpt-neox-20b": "gpt-neox",
    "gpt-oss-20b": "gpt-oss",
    "gpt2": "gpt2",
    "gpt3-175b": "gpt2",
    "llama-1-7b": "llama",
    "llama-2-7b": "llama",
    "llama-3.1-405b": "llama",
    "llama-3.1-70b": "llama",
    "llama-3.1-8b": "llama",
    "llama-3.2-1b": "llama",
    "llama-4-scout": "llama-4",
    "minicpm3-4b": "minicpm3",
    "mistral-7b-v0.1": "mistral",
    "mixtral-8x7b": "mixtral",
    "mpt-7b": "mpt",
    "nemotron-4-15b": "nemotron",
    "olmo-1b": "olmo",
    "olmo-2-7b": "olmo2",
    "opt-6.7b": "opt",
    "palm-540b": "command-r",
    "phi-2": "phi-2",
    "phi-3-mini-4k": "phi3",
    "qwen2-7b": "qwen2",
    "qwen2.5-0.5b": "qwen2",
    "qwen3-0.6b": "qwen3",
    "qwen3-30b-a3b": "qwen3-moe",
    "qwen3-8b": "qwen3",
    "smollm3-3b": "smollm3",
    "stablelm-2-1.6b": "stablelm-1.6b",
    "t5-11b": "t5",
    "t5-base": "t5",
    "transformer-base": "marian",
    "transformer-big": "marian",
    "whisper-small": "whisper",
}
"""Whose record of parity a preset goes by: which weights are quiet, and what is compared."""

LENGTH = 96  # far beyond the window
TOLERANCE = 1e-5  # of the largest logit
FAINT = 0.003  # embeddings loud enough to reach the softcaps, then so faint that the first norm feels its eps
SMALL = {
    "vocab_size": 61,
    "d_ff": 48,
    "n_heads": 4,
    "n_kv_heads": 2,
    "n_experts": 32,
    "window": 7,
    "chunk": 7,
    "source_len": SOURCE,
}
NAMES = {
    "vocab_size": ("vocab_size", "decoder_vocab_size"),
    "d_ff": (
        *(
            "intermediate_size",
            "moe_intermediate_size",
            "intermediate_size_mlp",
            "n_inner",
            "ffn_hidden_size",
            "d_ff",
            "ffn_dim",
        ),
        *("encoder_ffn_dim", "decoder_ffn_dim"),
    ),
    "n_heads": (
        *("num_attention_heads", "n_head", "num_kv_heads", "n_heads", "num_heads"),
        *("encoder_attention_heads", "decoder_attention_heads"),
    ),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "window": ("sliding_window",),
    "chunk": ("attention_chunk_size",),
    "source_len": ("max_source_positions",),
}
WIDTHS = ("hidden_size", "n_embd", "n_embed", "d_model", "word_embed_proj_dim")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
UNSTATED = {"n_inner", "ffn_hidden_size"}
"""Keys that configs leave out where d_ff is 4 d_model, as it is not here."""

FOURFOLD = {"bloom", "mpt", "openai-gpt"}
"""Classes whose d_ff is 4 d_model whatever else is said."""

DERIVED = {
    "t5": {"head.scale": lambda config: config["d_model"] ** -0.5},
    "minicpm3": {
        "head.scale": lambda config: config["dim_model_base"] / config["hidden_size"],
        "groups.0.layer.residual_multiplier": lambda config: (
            config["scale_depth"] / config["num_hidden_layers"] ** 0.5
        ),
    },
}
"""Settings that a class works out from sizes."""


def their_config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


def small(model, model_type):
    """The preset with small sizes; heads stay as wide as they are, and each pattern whole."""
    found = dict(settings(model))
    heads = next(value for path, value in found.items() if path.endswith("n_heads"))
    d_model = SMALL["n_heads"] * model.d_model // heads
    sizes = {
        path: SMALL[path.split(".")[-1]]
        for path, value in found.items()
        if path.split(".")[-1] in SMALL and value is not None
    }
    for path, size in list(sizes.items()):
        if path.endswith("shared.d_ff"):  # of so many experts' width
            sizes[path] = size * (found[path] // found[path.replace("shared", "expert")])
        elif path.endswith("d_ff") and model_type in FOURFOLD:
            sizes[path] = 4 * d_model
    for prefix, stack in stacks(model):
        sizes |= {
            f"{prefix}groups.{i}.n_layers": max(2, len(group.blocks)) for i, group in enumerate(stack.groups)
        }
    if model_type == "whisper":
        sizes |= {"encoder.front_end.d_model": d_model, "encoder.position.max_seq_len": SOURCE}
    return substitute(model, {**sizes, "d_model": d_model})


def small_config(name, model):
    """The config with the sizes of the small model."""
    config = their_config(name)
    for ours, theirs in NAMES.items():
        config.update({key: SMALL[ours] for key in theirs if config.get(key) is not None or key in UNSTATED})
    [n_layers] = {sum(group.n_layers for group in stack.groups) for _, stack in stacks(model)}
    config = {
        key: value[:n_layers] if isinstance(value, list) and key != "architectures" else value
        for key, value in config.items()
    }
    config.update({key: model.d_model for key in WIDTHS if key in config})
    config.update({key: n_layers for key in DEPTHS if key in config})
    config["pad_token_id"] = config.get("pad_token_id") and 0
    if "first_k_dense_replace" in config:
        config["first_k_dense_replace"] = model.groups[0].n_layers
    if "num_key_value_heads" in config:
        attention = model.groups[0].blocks[0].attention
        config["num_key_value_heads"] = getattr(attention, "kv_heads", SMALL["n_heads"])
    return config


def shapes(model):
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RECORDS)
def test_computes_what_transformers_computes(name):
    model_type, base = their_config(name)["model_type"], FAMILIES[RECORDS[name]]
    spec = inferring(small(load(name).model, model_type))
    config = small_config(name, spec)
    spec = substitute(spec, {path: derive(config) for path, derive in DERIVED.get(model_type, {}).items()})
    family = replace(base, config=config, spec=spec, restretched=False)
    theirs, ours = their_model(family), build_model(spec, attention="eager").eval()
    seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    with torch.no_grad():
        randomise(tensors(theirs), family, seed)
        tokens = torch.randint(spec.vocab_size, (2, LENGTH), generator=seed)
        source = random_source(spec, seed, LENGTH)
        for loudness in (1, FAINT):
            theirs.get_input_embeddings().weight.mul_(loudness)
            ours.load_state_dict(translate(tensors(theirs), family.map, shapes(ours)))
            expected = answer(theirs, family, tokens, *source)
            assert (ours(tokens, *source) - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.parametrize("name", [name for name in RECORDS if their_config(name)["model_type"] in DERIVED])
def test_states_what_transformers_works_out(name):
    config, stated = their_config(name), dict(settings(load(name).model))
    for path, derive in DERIVED[config["model_type"]].items():
        assert stated[path] == derive(config)
