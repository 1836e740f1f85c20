"""OLMo 1 as first published, by the keys of ai2-olmo's own configuration: model_type hf_olmo."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule

ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "max_position_embeddings": "max_sequence_length",
    "tie_word_embeddings": "weight_tying",
}
DEFAULTS = {
    "vocab_size": 50257,
    "d_model": 768,
    "n_layers": 12,
    "n_heads": 12,
    "max_sequence_length": 1024,
    "weight_tying": True,
    "mlp_ratio": 4,
    "rope_theta": 10000.0,
    "layer_norm_type": "default",
    "layer_norm_with_affine": True,
    "layer_norm_eps": 1e-5,
}
"""Of ModelConfig in github.com/allenai/OLMo, olmo/config.py."""
PLAIN = {
    "block_type": "sequential",
    "block_group_size": 1,
    "activation_type": "swiglu",
    "rope": True,
    "alibi": False,
    "include_bias": False,
    "attention_layer_norm": False,
    "embedding_layer_norm": False,
    "norm_after": False,
    "scale_logits": False,
    "scale_emb_init": False,
    "bias_for_layer_norm": False,
}
"""Settings of ai2-olmo's code, with what every published model of this type has."""
UNREAD = """
    init_device init_fn init_std init_cutoff_factor flash_attention precision attention_dropout_p
    residual_dropout embedding_dropout layer_norm_with_affine multi_query_attention rope_full_precision
    attention_layer_norm_with_affine softmax_auxiliary_loss eos_token_id pad_token_id
    emb_init_std
"""
BLOCK = "[model.]transformer.blocks.*"
WEIGHTS: dict[str, Rule] = {
    "[model.]transformer.wte.weight": "embedding.tokens.weight",
    "[model.]transformer.ff_out.weight": "lm_head.weight",
    "[model.]transformer.ln_f.weight": "final_norm.weight",
    f"{BLOCK}.attn_norm.weight": "layers.*.attention_norm.weight",
    f"{BLOCK}.ff_norm.weight": "layers.*.ffn_norm.weight",
    f"{BLOCK}.att_proj.weight": Parts(tuple(f"layers.*.attention.{which}_proj.weight" for which in "qkv")),
    f"{BLOCK}.attn_out.weight": "layers.*.attention.o_proj.weight",
    f"{BLOCK}.ff_proj.weight": Parts(("layers.*.ffn.up_proj.weight", "layers.*.ffn.gate_proj.weight")),
    f"{BLOCK}.ff_out.weight": "layers.*.ffn.down_proj.weight",
}


def _hf_olmo(config: Config) -> Mapped:
    """As OLMo 1, from a width for gate and up together, and a padded table."""
    for key, value in PLAIN.items():
        config.only(key, value, default=value)
    config.ignore(*UNREAD.split())
    width = hf.even_split(config)
    attend = hf.attention(
        config,
        width,
        position=hf.rope(config, width),
        bias=False,
        clip=hf.optional_number(config, "clip_qkv"),
    )
    layer = {"kind": "pre_norm", "attention": attend, "ffn": _network(config)}
    mapping = hf.decoder(config, _norm(config), [layer] * config.layers(), tied=True)
    padded = config.optional_size("embedding_size")
    return mapping if padded is None else {**mapping, "vocab_size": padded}


def _network(config: Config) -> Mapped:
    """SwiGLU of half the stated width: `mlp_hidden_size`, else mlp_ratio times d_model."""
    both = config.optional_size("mlp_hidden_size")
    if both is None:
        ratio = config.size("mlp_ratio")
        both = ratio.derive(ratio.value * config.size("hidden_size").value)
    return {"kind": "glu", "d_ff": both.derive(both.value // 2), "activation": "silu"}


def _norm(config: Config) -> Mapped:
    """LayerNorm, with a weight where `layer_norm_with_affine`; RMSNorm where the type is rms."""
    weighted = config.flag("layer_norm_with_affine")
    kind, eps = config.value("layer_norm_type"), config.number("layer_norm_eps")
    if kind.value == "rms":
        return {"kind": "rmsnorm", "eps": eps, "weight": weighted}
    config.only("layer_norm_type", "default", "low_precision")
    return hf.layernorm(eps, weight=weighted, bias=False)


FAMILIES = {
    "hf_olmo": Family(
        "OLMo 1 as first published, whose class is in the package ai2-olmo: OLMoConfig.",
        _hf_olmo,
        WEIGHTS,
        aliases=ALIASES,
        defaults=DEFAULTS,
    ),
}
