"""BLOOM: BloomConfig and BloomForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("bloom",)

ALIASES = {"hidden_size": "n_embed", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
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


def mapping(config: Config) -> Mapped:
    """Pre-norm, ALiBi, everything biased, a norm after the embeddings, the tanh form of GELU."""
    config = config.of_class(**ALIASES)
    config.only("apply_residual_connection_post_layernorm", False)
    config.ignore(*TRAINED_WITH)
    norm = layernorm(config.number("layer_norm_epsilon"))
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
    return decoder(config, norm, [layer] * config.layers(), embedding={"norm": norm}, max_seq_len=longest)


def weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values head by head."""
    heads = config.of_class(**ALIASES).size("num_attention_heads").value
    return {
        "[transformer.]word_embeddings.weight": "embedding.tokens.weight",
        "[transformer.]word_embeddings_layernorm.*": "embedding.norm.*",
        "[transformer.]h.*.input_layernorm.*": "layers.*.attention_norm.*",
        "[transformer.]h.*.self_attention.query_key_value.*": Parts(FUSED, groups=heads),
        "[transformer.]h.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        "[transformer.]h.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[transformer.]ln_f.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
    }
