"""TeleChat 1 and 2, whose class is in their repositories: TelechatConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("telechat",)

OWN = {
    "vocab_size": 160256,
    "hidden_size": 4096,
    "ffn_hidden_size": 12288,
    "n_layer": 30,
    "n_head": 32,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "training_seqlen": 8192,
    "tie_word_embeddings": True,
}
ALIASES = {
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "rms_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "training_seqlen",
    "intermediate_size": "ffn_hidden_size",
}


def mapping(config: Config) -> Mapped:
    """As Llama; the matrices that write to the stream are biased.

    `logn` and a longer base of RoPE change what lies beyond the context of training.
    """
    config = config.of_class(OWN, **ALIASES)
    config.only("apply_residual_connection_post_layernorm", False, default=False)
    config.only("embed_layernorm", False, default=False)
    config.ignore("logn", "base_seqlen", "flash_attn", "skip_bias_add", "slow_but_exact", "unk_token_id")
    return llama_like(config, heads={"bias": ["o"]}, ffn=gated(config) | {"bias": ["down"]})


def weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds the key and the value of one head after another."""
    config = config.of_class(OWN, **ALIASES)
    heads = config.size("num_attention_heads")
    groups = config.size("num_key_value_heads", default=heads).value
    both = ("layers.*.attention.k_proj.weight", "layers.*.attention.v_proj.weight")
    return {
        "[transformer.]word_embeddings.weight": "embedding.tokens.weight",
        "[transformer.]h.*.input_layernorm.weight": "layers.*.attention_norm.weight",
        "[transformer.]h.*.self_attention.query.weight": "layers.*.attention.q_proj.weight",
        "[transformer.]h.*.self_attention.key_value.weight": Parts(both, groups=groups),
        "[transformer.]h.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.post_attention_layernorm.weight": "layers.*.ffn_norm.weight",
        "[transformer.]h.*.mlp.gate_proj.weight": "layers.*.ffn.gate_proj.weight",
        "[transformer.]h.*.mlp.up_proj.weight": "layers.*.ffn.up_proj.weight",
        "[transformer.]h.*.mlp.down_proj.*": "layers.*.ffn.down_proj.*",
        "[transformer.]ln_f.weight": "final_norm.weight",
        "lm_head.weight": "lm_head.weight",
    }
