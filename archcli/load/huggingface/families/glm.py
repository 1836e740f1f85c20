"""ChatGLM and GLM-4, dense and with experts."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.deepseek_like import deepseek_like, deepseek_weights
from archcli.load.huggingface.whole.llama_like import llama_like

CHATGLM_DEFAULTS = {
    "num_layers": 28,
    "padded_vocab_size": 65024,
    "hidden_size": 4096,
    "ffn_hidden_size": 13696,
    "kv_channels": 128,
    "num_attention_heads": 32,
    "seq_length": 2048,
    "layernorm_epsilon": 1e-5,
    "rmsnorm": True,
    "post_layer_norm": True,
    "add_bias_linear": False,
    "add_qkv_bias": False,
    "multi_query_attention": False,
    "multi_query_group_num": 1,
    "rope_ratio": 1,
    "tie_word_embeddings": False,
}
CHATGLM_ALIASES = {
    "num_hidden_layers": "num_layers",
    "vocab_size": "padded_vocab_size",
    "max_position_embeddings": "seq_length",
}
FIRST_GENERATION = ("position_encoding_2d", "inner_hidden_size")
UNREAD_BY_CHATGLM = (
    "apply_query_key_layer_scaling",
    "attention_softmax_in_fp32",
    "fp32_residual_connection",
    "bias_dropout_fusion",
    "original_rope",
    "rotary_percent",
)
"""Keys that say how, not what, is computed."""


def _chatglm(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, interleaved RoPE on half of each head, SwiGLU.

    post_layer_norm is the norm after the last layer. transformers has the same model as glm.
    """
    if any(key in config.data for key in FIRST_GENERATION):
        what = "ChatGLM of the first generation is not supported"
        raise config.error(what, "ChatGLM 2 and 3 and GLM-4 are", config.place(*FIRST_GENERATION))
    config.only("apply_residual_connection_post_layernorm", False, default=False)
    # P-tuning: trained keys and values in front of every layer's
    config.only("pre_seq_len", None, 0, default=None)
    config.ignore(*UNREAD_BY_CHATGLM, "prefix_projection", "quantization_bit", "classifier_dropout")
    eps, biased = config.number("layernorm_epsilon"), config.flag("add_bias_linear")
    layer = {
        "kind": "pre_norm",
        "attention": _chatglm_attention(config, biased=biased),
        "ffn": {"kind": "glu", "d_ff": config.size("ffn_hidden_size"), "activation": "silu"}
        | ({"bias": biased} if biased else {}),
    }
    norm = {"kind": "rmsnorm", "eps": eps} if config.flag("rmsnorm") else hf.layernorm(eps)
    last = None if config.flag("post_layer_norm") else False
    return hf.decoder(config, norm, [layer] * config.layers(), final_norm=last)


def _chatglm_attention(config: Config, *, biased: hf.Flag) -> Mapped:
    """MHA, or GQA where multi_query_attention says so; rope_ratio multiplies RoPE's base."""
    heads, width = config.size("num_attention_heads"), config.size("kv_channels")
    kv_heads = config.size("multi_query_group_num") if config.flag("multi_query_attention") else heads
    ratio = config.number("rope_ratio")
    parameters = {"rope_theta": ratio.derive(10000.0 * ratio.value)}
    return hf.without_none(
        {
            **hf.head_counts(heads, kv_heads),
            "head_dim": width if width.value * heads.value != config.size("hidden_size") else None,
            "bias": biased or (["q", "k", "v"] if config.flag("add_qkv_bias") else None),
            "position": hf.position(config, width, parameters, pairing="interleaved", partial=0.5),
        }
    )


CHATGLM_WEIGHTS: Weights = {
    "[transformer.]embedding.word_embeddings.weight": "embedding.tokens.weight",
    "[transformer.]encoder.layers.*.input_layernorm.*": "layers.*.attention_norm.*",
    "[transformer.]encoder.layers.*.self_attention.query_key_value.*": Parts(hf.FUSED),
    "[transformer.]encoder.layers.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
    "[transformer.]encoder.layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
    "[transformer.]encoder.layers.*.mlp.dense_h_to_4h.*": Parts(
        ("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")
    ),
    "[transformer.]encoder.layers.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
    "[transformer.]encoder.final_layernorm.*": "final_norm.*",
    "[transformer.]output_layer.weight": "lm_head.weight",
}
"""Queries, keys and values one after the other, and so are gate and up."""


def _glm(config: Config) -> Mapped:
    """As Llama with biased queries, keys and values, and interleaved RoPE on half of each head."""
    return llama_like(config, heads=_half_turned(config))


def _half_turned(config: Config) -> Mapped:
    """Biased queries, keys and values, and interleaved RoPE on half of each head."""
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    return {
        "bias": bias,
        "position": hf.rope(config, hf.head_dim(config), pairing="interleaved", partial=0.5),
    }


GLM_WEIGHTS = hf.renamed(hf.LLAMA, {"[model.]layers.*.mlp.gate_up_proj.weight": hf.GATE_UP})
GLM4_WEIGHTS = {
    **GLM_WEIGHTS,
    "[model.]layers.*.post_self_attn_layernorm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
}


def _glm4(config: Config) -> Mapped:
    """As GLM of 2024, with a norm after each sublayer too; interleaved RoPE on half of each head."""
    return llama_like(config, heads=_half_turned(config), block={"kind": "sandwich"})


def _sarvam_moe(config: Config) -> Mapped:
    """As GLM-4.5, with RoPE on all of each head."""
    return _glm4_moe(config, partial=1.0)


def _glm4_moe(config: Config, *, partial: float = 0.5) -> Mapped:
    """Pre-norm, RMSNorm, RoPE on half of each head; dense layers first, then experts as in DeepSeek-V3."""
    width = hf.head_dim(config)
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    attend = hf.attention(
        config,
        width,
        bias=bias,
        position=hf.rope(config, width, partial=partial),
        qk_norm=hf.PER_HEAD if config.flag("use_qk_norm") else None,
    )
    return deepseek_like(config, attend, hf.after_first(config))


def _glm4_moe_weights(config: Config) -> Weights:
    """The names of Llama with routed and shared experts, and the layers of multi-token prediction."""
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0).value
    predicting = hf.prediction_layers(config.layers(), depth)
    return {**hf.LLAMA, **hf.EXPERTS, **hf.SHARED, **hf.QK_NORM, **hf.CORRECTED, **predicting}


SARVAM_WEIGHTS: Weights = {
    "[model.]word_embeddings.weight": "embedding.tokens.weight",
    "[model.]layers.*.attention.query_key_value.*": Parts(hf.FUSED),
    "[model.]layers.*.attention.dense.weight": "layers.*.attention.o_proj.weight",
    "[model.]layers.*.attention.query_layernorm.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.attention.key_layernorm.weight": "layers.*.attention.k_norm.weight",
    "[model.]layers.*.mlp.gate.expert_bias": "layers.*.ffn.route.correction_bias",
}
"""Names of published files, beside those of GLM-4.5."""


def _sarvam_weights(config: Config) -> Weights:
    return {**_glm4_moe_weights(config), **SARVAM_WEIGHTS}


def _glm4_moe_lite(config: Config) -> Mapped:
    """As DeepSeek-V3; the first layer is dense where mlp_layer_types names none."""
    config.ignore("first_k_dense_replace", "moe_layer_freq", "scoring_func", "topk_method")
    routed = hf.by_types(config, lambda: [index > 0 for index in range(config.layers())])
    return deepseek_like(config, hf.latent_attention(config), routed)


FAMILIES = {
    "chatglm": Family(
        "ChatGLM 2 and 3 and GLM-4, by the keys of their repositories' configuration_chatglm.py.",
        _chatglm,
        CHATGLM_WEIGHTS,
        aliases=CHATGLM_ALIASES,
        defaults=CHATGLM_DEFAULTS,
        headed=("ChatGLMModel",),  # their base class holds the head itself
    ),
    "glm": Family(
        "GLM-4 9B in transformers' own form: GlmConfig and GlmForCausalLM.",
        _glm,
        GLM_WEIGHTS,
    ),
    "glm4": Family("GLM-4 of April 2025 (9B and 32B): Glm4Config and Glm4ForCausalLM.", _glm4, GLM4_WEIGHTS),
    "glm4_moe": Family(
        "GLM-4.5 and 4.6: Glm4MoeConfig and Glm4MoeForCausalLM.",
        _glm4_moe,
        _glm4_moe_weights,
        aliases=hf.EXPERT_WORDS,
    ),
    "sarvam_moe": Family(
        "Sarvam 30B: SarvamMoEConfig, of GLM-4.5's class Glm4MoeForCausalLM.",
        _sarvam_moe,
        _sarvam_weights,
        aliases={
            **hf.EXPERT_WORDS,
            "n_shared_experts": "num_shared_experts",
            "attention_bias": "use_qkv_bias",
        },
    ),
    "glm4_moe_lite": Family(
        "GLM-4.7-Flash: Glm4MoeLiteConfig and Glm4MoeLiteForCausalLM.",
        _glm4_moe_lite,
        deepseek_weights,
        aliases=hf.EXPERT_WORDS,
    ),
}
