"""A key of the wrong type is refused with its place or read as its class would, and is never a traceback."""

import json
from contextlib import suppress

import pytest

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.importer import families, weight_map
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.source import load_text

REQUIRED = {
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
WRONG = ("x", [1], {"a": 1}, True, None, -1, float("nan"), 10**30, [None])
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


@pytest.mark.sample(1, second=24)
@pytest.mark.parametrize("kind", [*families(), *WRAPPERS])
def test_no_wrong_type_is_a_traceback(kind, monkeypatch):
    config = {"model_type": kind, **REQUIRED.get(kind, {})}
    if kind in WRAPPERS:
        config[WRAPPERS[kind].key] = REQUIRED.get(WRAPPERS[kind].text, {})
    for key in sorted(keys_of(config, monkeypatch)):
        for value in WRONG:
            with suppress(ArchError):
                load_text(json.dumps({**config, key: value}), "f")
            with suppress(ArchError):
                weight_map({**config, key: value})
