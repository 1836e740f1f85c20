"""Qwen of 2023, whose class is in its repositories: QWenConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.rope import position
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED

MODEL_TYPES = ("qwen",)

OWN = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "kv_channels": 128,
    "layer_norm_epsilon": 1e-6,
    "max_position_embeddings": 8192,
    "rotary_pct": 1.0,
    "rotary_emb_base": 10000,
    "no_bias": True,
    "scale_attn_weights": True,
    "tie_word_embeddings": False,
}
FIRST_WORDS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "ffn_hidden_size",
    "max_position_embeddings": "n_positions",
}
"""Keys as the first files have them, of August 2023."""

BEYOND = ("use_dynamic_ntk", "use_logn_attn")
"""What changes positions and scales, but only beyond the context of training."""

RUNNING = (
    *("use_flash_attn", "use_cache_quantization", "use_cache_kernel", "softmax_in_fp32", "onnx_safe"),
    *("bf16", "fp16", "fp32", "attn_dropout_prob", "emb_dropout_prob", "padded_vocab_size", "visual"),
    *("audio", "apply_residual_connection_post_layernorm", "pos_emb", "activation", "bias_gelu_fusion"),
)


def mapping(config: Config) -> Mapped:
    """RMSNorm, MHA with biased queries, keys and values, SwiGLU each of whose branches has half the width."""
    config = config.of_class(OWN, **FIRST_WORDS)
    if config.get("visual", default=None):
        config.note("vision tower (visual) is not counted, nor what joins it to the language model")
    if config.get("audio", default=None):
        config.note("audio tower (audio) is not counted, nor what joins it to the language model")
    config.ignore(*BEYOND, *RUNNING)
    config.only("scale_attn_weights", True)
    width, whole = config.size("kv_channels"), config.size("intermediate_size")
    rotary = {
        "rope_theta": config.number("rotary_emb_base"),
        "partial_rotary_factor": config.number("rotary_pct"),
    }
    bias = not config.flag("no_bias")
    layer = {
        "kind": "pre_norm",
        "attention": attention(
            config, width, bias=bias or ["q", "k", "v"], position=position(config, width, rotary, partial=1.0)
        ),
        "ffn": {"kind": "glu", "d_ff": whole.derive(whole.value // 2), "activation": "silu", "bias": bias},
    }
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    longest = config.optional_size("seq_length", "max_position_embeddings")
    return decoder(config, norm, [layer] * config.layers(), max_seq_len=longest)


WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.weight": "layers.*.attention_norm.weight",
    "[transformer.]h.*.attn.c_attn.*": Parts(FUSED),
    "[transformer.]h.*.attn.c_proj.*": "layers.*.attention.o_proj.*",
    "[transformer.]h.*.ln_2.weight": "layers.*.ffn_norm.weight",
    "[transformer.]h.*.mlp.w1.*": "layers.*.ffn.up_proj.*",
    "[transformer.]h.*.mlp.w2.*": "layers.*.ffn.gate_proj.*",
    "[transformer.]h.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
    "[transformer.]ln_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
