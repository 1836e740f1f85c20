"""Decoders with ALiBi: BLOOM and MPT."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights

BLOOM_ALIASES = {"hidden_size": "n_embed", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
TRAINED_WITH = (
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "n_inner",
    "offset_alibi",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
)
"""Keys of its training software, and n_inner: the class makes the network 4 d_model wide whatever it says."""


def _bloom(config: Config) -> Mapped:
    """Pre-norm, ALiBi, everything biased, a norm after the embeddings, the tanh form of GELU."""
    config.only("apply_residual_connection_post_layernorm", False)
    config.ignore(*TRAINED_WITH)
    norm = hf.layernorm(config.number("layer_norm_epsilon"))
    heads, width = config.size("num_attention_heads"), config.size("hidden_size")
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": heads, "bias": True, "position": {"kind": "alibi"}},
        "ffn": {
            "kind": "mlp",
            "d_ff": width.derive(4 * width.value),
            "activation": "gelu_tanh",
            "bias": True,
        },
    }
    longest = config.optional_size("seq_length")
    return hf.decoder(config, norm, [layer] * config.layers(), embedding={"norm": norm}, max_seq_len=longest)


def _bloom_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head."""
    heads = config.size("num_attention_heads").value
    return {
        "[transformer.]word_embeddings.weight": "embedding.tokens.weight",
        "[transformer.]word_embeddings_layernorm.*": "embedding.norm.*",
        "[transformer.]h.*.input_layernorm.*": "layers.*.attention_norm.*",
        "[transformer.]h.*.self_attention.query_key_value.*": Parts(hf.FUSED, groups=heads),
        "[transformer.]h.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        "[transformer.]h.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[transformer.]ln_f.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
    }


MPT_ALIASES = {
    "hidden_size": "d_model",
    "max_position_embeddings": "max_seq_len",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
}
ATTENTION_DEFAULTS = {
    "attn_type": "multihead_attention",
    "prefix_lm": False,
    "qk_ln": False,
    "alibi": True,
    "alibi_bias_max": 8,
}
"""Those of MptAttentionConfig; the class knows no other values of the first four."""


def _mpt(config: Config) -> Mapped:
    """Pre-norm, norms of gains alone, ALiBi, no bias; refuses what the class would leave out in silence."""
    config.only("expansion_ratio", 4)
    config.only("no_bias", True)
    config.only("logit_scale", None, default=None)
    config.only("norm_type", "low_precision_layernorm", "layernorm", default="low_precision_layernorm")
    config.ignore(
        "emb_pdrop", "embedding_fraction", "init_config", "learned_pos_emb", "verbose", "tokenizer_name"
    )
    width = config.size("hidden_size")
    layer = {
        "kind": "pre_norm",
        "attention": _mpt_attention(config),
        "ffn": {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": "gelu"},
    }
    norm = hf.layernorm(config.number("layer_norm_epsilon"), bias=False)
    return hf.decoder(config, norm, [layer] * config.layers())


def _mpt_attention(config: Config) -> Mapped:
    inner = config.inner("attn_config", ATTENTION_DEFAULTS)
    for key in ("attn_type", "prefix_lm", "qk_ln", "alibi"):
        inner.only(key, ATTENTION_DEFAULTS[key])
    steepest = inner.number("alibi_bias_max")
    usual = steepest == ATTENTION_DEFAULTS["alibi_bias_max"]
    return hf.without_none(
        {
            "kind": "mha",
            "n_heads": config.size("num_attention_heads"),
            "position": {"kind": "alibi"} | ({} if usual else {"slope_exponent": steepest}),
            "clip": inner.number("clip_qkv", default=0.0) or None,
            "scale": inner.number("softmax_scale", default=0.0) or None,
        }
    )


MPT_WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]blocks.*.norm_1.*": "layers.*.attention_norm.*",
    "[transformer.]blocks.*.attn.Wqkv.*": Parts(hf.FUSED),
    "[transformer.]blocks.*.attn.out_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]blocks.*.norm_2.*": "layers.*.ffn_norm.*",
    "[transformer.]blocks.*.ffn.up_proj.*": "layers.*.ffn.up_proj.*",
    "[transformer.]blocks.*.ffn.down_proj.*": "layers.*.ffn.down_proj.*",
    "[transformer.]norm_f.*": "final_norm.*",
    "lm_head.weight": "lm_head.weight",
}


FAMILIES = {
    "bloom": Family(
        "BLOOM: BloomConfig and BloomForCausalLM.", _bloom, _bloom_weights, aliases=BLOOM_ALIASES
    ),
    "mpt": Family("MPT: MptConfig and MptForCausalLM.", _mpt, MPT_WEIGHTS, aliases=MPT_ALIASES),
}
