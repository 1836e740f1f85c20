"""A key of the wrong type is refused with its place or read as its class would, and is never a traceback."""

import json
from contextlib import suppress

import pytest

from archcli.errors import ArchError
from archcli.load.huggingface import importer
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.registry import families
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.source import load_text
from wrapping import NGRAMS, POOLS

REQUIRED = {
    "clip": {"architectures": ["CLIPForImageClassification"]},
    "metaclip_2": {"architectures": ["MetaClip2ForImageClassification"]},
    "siglip": {"architectures": ["SiglipForImageClassification"]},
    "siglip2": {"architectures": ["Siglip2ForImageClassification"]},
    "qwen4_exp_text": {**POOLS, **NGRAMS},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_thinker": {"text_config": {"head_dim": 128}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": None}},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv"] * 31 + ["full_attention"]},
    "minimax_text_01": {"postnorm": True, "attn_type_list": 31 * [0] + [1]},
    "minimax_m1": {"postnorm": True, "attn_type_list": 31 * [0] + [1]},
    "nemotron": {"num_key_value_heads": 48},
    "deci": {"num_hidden_layers": 1, "num_key_value_heads_per_layer": [8]},
    "openelm": {
        "num_transformer_layers": 1,
        "num_query_heads": [8],
        "num_kv_heads": [4],
        "ffn_multipliers": [2.5],
    },
    "nemotron-nas": {
        "num_hidden_layers": 1,
        "block_configs": [{"attention": {"n_heads_in_group": 4, "window_length": 8}, "ffn": {"ffn_mult": 2}}],
    },
}
WRONG = ("x", [1, [1, 2], 3], {"a": 1}, True, None, -1, float("nan"), 10**30, [None])
BESIDE = {"text_config", "rope_scaling", "quantization_config", "vision_config", "id2label", "auto_map"}


def keys_of(config, monkeypatch):
    """The keys that are asked for while a config.json is read."""
    seen = set(BESIDE)

    def unread(self):
        seen.update(self.read)
        return []

    with monkeypatch.context() as patched:
        patched.setattr(Config, "unread_keys", unread)
        load_text(json.dumps(config), "f")
    return seen


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", [*families(), *WRAPPERS])
def test_no_wrong_type_is_a_traceback(kind, monkeypatch):
    monkeypatch.setattr(importer, "_is_sized", lambda *_: True)  # so that every other key is looked at
    config = {"model_type": kind, **REQUIRED.get(kind, {})}
    if kind in WRAPPERS:
        config[WRAPPERS[kind].key] = REQUIRED.get(WRAPPERS[kind].text, {})
    for key in sorted(keys_of(config, monkeypatch)):
        for value in WRONG:
            with suppress(ArchError):
                load_text(json.dumps({**config, key: value}), "f")
            with suppress(ArchError):
                weight_map({**config, key: value})


BEFORE = {"original_max_position_embeddings": 16}
ROPES = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **BEFORE},
    "yarn": {"factor": 4.0, "beta_fast": 4, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0, **BEFORE},
    "longrope": {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "attention_factor": 1.0, **BEFORE},
    "proportional": {"partial_rotary_factor": 0.5, "factor": 2.0},
}
EXTREME = (*WRONG, 0, 0.5, 1e308, -1e308, 1e-320, [], [0.0] * 4)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("scaling", ROPES)
def test_no_rope_parameter_is_a_traceback(scaling):
    """A context of 0 before scaling, a share of a head that no float holds."""
    for kind in ("llama", "deepseek_v3", "phi3"):
        for key in ROPES[scaling]:
            for value in EXTREME:
                rope = {"rope_type": scaling, **ROPES[scaling], key: value}
                config = {"model_type": kind, "num_hidden_layers": 1, "rope_scaling": rope}
                with suppress(ArchError):
                    load_text(json.dumps(config), "f")


NESTED = {
    "full_attn_layers": {"full_attn_layers": [4, [1, 2], 12], "kda_layers": [1, 2, 3]},
    "kda_layers": {"full_attn_layers": [4], "kda_layers": [1, {"a": 2}, 3]},
    "no list": {"full_attn_layers": 4, "kda_layers": [1, 2, 3]},
    "flags": {"full_attn_layers": [4], "kda_layers": [True, 2, 3]},
}


@pytest.mark.parametrize("layers", NESTED.values(), ids=NESTED)
def test_a_list_of_layers_with_something_else_in_it_is_refused(layers):
    config = {"model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": layers}
    with pytest.raises(ArchError, match="must name each of the 4 layers once"):
        load_text(json.dumps(config), "f")


def test_a_list_for_a_word_is_refused():
    config = {"model_type": "cohere2_moe", "num_shared_experts": 2, "hidden_size": 64}
    with pytest.raises(ArchError, match=r"shared_expert_combination_strategy \[1, \[2\]\] is not supported"):
        load_text(json.dumps({**config, "shared_expert_combination_strategy": [1, [2]]}), "f")
