"""ChatGLM 2 and 3 and GLM-4, by the keys of their repositories' configuration_chatglm.py.

transformers has the same model as glm.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import Flag, head_counts
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.parts.rope import position
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("chatglm",)
HEADED = ("ChatGLMModel",)
"""Their base class holds the head itself."""

OWN = {
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
ALIASES = {
    "num_hidden_layers": "num_layers",
    "vocab_size": "padded_vocab_size",
    "max_position_embeddings": "seq_length",
}
FIRST_GENERATION = ("position_encoding_2d", "inner_hidden_size")
SAME_SCORES = (
    "apply_query_key_layer_scaling",
    "attention_softmax_in_fp32",
    "fp32_residual_connection",
    "bias_dropout_fusion",
    "original_rope",
    "rotary_percent",
)
"""Keys that say how, not what, is computed."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, interleaved RoPE on half of each head, SwiGLU.

    post_layer_norm is the norm after the last layer.
    """
    config = config.of_class(OWN, **ALIASES)
    if any(key in config.data for key in FIRST_GENERATION):
        what = "ChatGLM of the first generation is not supported"
        raise config.error(what, "ChatGLM 2 and 3 and GLM-4 are", config.place(*FIRST_GENERATION))
    config.only("apply_residual_connection_post_layernorm", False, default=False)
    config.only("pre_seq_len", None, 0, default=None)
    config.ignore(*SAME_SCORES, "prefix_projection", "quantization_bit", "classifier_dropout")
    eps, biased = config.number("layernorm_epsilon"), config.flag("add_bias_linear")
    layer = {
        "kind": "pre_norm",
        "attention": _attention(config, biased=biased),
        "ffn": {"kind": "glu", "d_ff": config.size("ffn_hidden_size"), "activation": "silu"}
        | ({"bias": biased} if biased else {}),
    }
    norm = {"kind": "rmsnorm", "eps": eps} if config.flag("rmsnorm") else layernorm(eps)
    last = None if config.flag("post_layer_norm") else False
    return decoder(config, norm, [layer] * config.layers(), final_norm=last)


def _attention(config: Config, *, biased: Flag) -> Mapped:
    """MHA, or GQA where multi_query_attention says so; rope_ratio multiplies RoPE's base."""
    heads, width = config.size("num_attention_heads"), config.size("kv_channels")
    kv_heads = config.size("multi_query_group_num") if config.flag("multi_query_attention") else heads
    ratio = config.number("rope_ratio")
    parameters = {"rope_theta": ratio.derive(10000.0 * ratio.value)}
    return without_none(
        {
            **head_counts(heads, kv_heads),
            "head_dim": width if width.value * heads.value != config.size("hidden_size") else None,
            "bias": biased or (["q", "k", "v"] if config.flag("add_qkv_bias") else None),
            "position": position(config, width, parameters, pairing="interleaved", partial=0.5),
        }
    )


WEIGHTS: Weights = {
    "[transformer.]embedding.word_embeddings.weight": "embedding.tokens.weight",
    "[transformer.]encoder.layers.*.input_layernorm.*": "layers.*.attention_norm.*",
    "[transformer.]encoder.layers.*.self_attention.query_key_value.*": Parts(FUSED),
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
