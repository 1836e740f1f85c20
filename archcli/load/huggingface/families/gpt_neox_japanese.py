"""GPT-NeoX Japanese: GPTNeoXJapaneseConfig and GPTNeoXJapaneseForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("gpt_neox_japanese",)

ALIASES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, MHA with RoPE and a plain network; only the last layer's attention has a bias."""
    config = config.of_class(**ALIASES)
    width, times = config.size("hidden_size"), config.size("intermediate_multiple_size")
    heads, position = config.size("num_attention_heads"), rope(config, even_split(config), partial=1.0)
    attend = {"kind": "mha", "n_heads": heads, "position": position}
    ffn = mlp(config, times.derive(times.value * width.value), "hidden_act", bias=False)
    layer = {"kind": "pre_norm", "attention": attend, "ffn": ffn}
    last = {**layer, "attention": {**attend, "bias": ["o"]}}
    layers = [layer] * (config.layers() - 1) + [last]
    return decoder(config, layernorm(config.number("layer_norm_eps")), layers)


def weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head."""
    heads = config.of_class(**ALIASES).size("num_attention_heads").value
    base = "[gpt_neox_japanese.]"
    return {
        f"{base}embed_in.weight": "embedding.tokens.weight",
        f"{base}layers.*.input_layernorm.*": "layers.*.attention_norm.*",
        f"{base}layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        f"{base}layers.*.attention.query_key_value.*": Parts(FUSED, groups=heads),
        f"{base}layers.*.attention.dense.*": "layers.*.attention.o_proj.*",
        f"{base}layers.*.attention.dense_bias": "layers.*.attention.o_proj.bias",
        f"{base}layers.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        f"{base}layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        f"{base}final_layer_norm.*": "final_norm.*",
        "embed_out.weight": "lm_head.weight",
    }
