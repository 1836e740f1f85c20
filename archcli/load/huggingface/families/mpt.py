"""MPT: MptConfig and MptForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("mpt",)

ALIASES = {
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


def mapping(config: Config) -> Mapped:
    """Pre-norm, norms of gains alone, ALiBi, no bias; refuses what the class would leave out in silence."""
    config = config.of_class(**ALIASES)
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
        "attention": _attention(config),
        "ffn": {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": "gelu"},
    }
    norm = layernorm(config.number("layer_norm_epsilon"), bias=False)
    return decoder(config, norm, [layer] * config.layers())


def _attention(config: Config) -> Mapped:
    inner = config.inner("attn_config", ATTENTION_DEFAULTS)
    for key in ("attn_type", "prefix_lm", "qk_ln", "alibi"):
        inner.only(key, ATTENTION_DEFAULTS[key])
    steepest = inner.number("alibi_bias_max")
    usual = steepest == ATTENTION_DEFAULTS["alibi_bias_max"]
    return without_none(
        {
            "kind": "mha",
            "n_heads": config.size("num_attention_heads"),
            "position": {"kind": "alibi"} | ({} if usual else {"slope_exponent": steepest}),
            "clip": inner.number("clip_qkv", default=0.0) or None,
            "scale": inner.number("softmax_scale", default=0.0) or None,
        }
    )


WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]blocks.*.norm_1.*": "layers.*.attention_norm.*",
    "[transformer.]blocks.*.attn.Wqkv.*": Parts(FUSED),
    "[transformer.]blocks.*.attn.out_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]blocks.*.norm_2.*": "layers.*.ffn_norm.*",
    "[transformer.]blocks.*.ffn.up_proj.*": "layers.*.ffn.up_proj.*",
    "[transformer.]blocks.*.ffn.down_proj.*": "layers.*.ffn.down_proj.*",
    "[transformer.]norm_f.*": "final_norm.*",
    "lm_head.weight": "lm_head.weight",
}
