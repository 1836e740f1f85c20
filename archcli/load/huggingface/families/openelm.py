"""OpenELM, whose class is in its repositories: OpenELMConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, is_number
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import PER_HEAD, head_counts
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.parts.rope import position
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, GATE_UP

MODEL_TYPES = ("openelm",)

OWN = {
    "vocab_size": 32000,
    "model_dim": 2048,
    "num_transformer_layers": 12,
    "max_context_length": 2048,
    "head_dim": 128,
    "activation_fn_name": "swish",
    "ffn_dim_divisor": 256,
    "rope_freq_constant": 10000,
    "share_input_output_layers": False,
}
ALIASES = {
    "hidden_size": "model_dim",
    "num_hidden_layers": "num_transformer_layers",
    "max_position_embeddings": "max_context_length",
    "tie_word_embeddings": "share_input_output_layers",
}
SAID_BY_LISTS = ("num_gqa_groups", "qkv_multipliers", "rope_max_length")
"""What `num_query_heads` and `num_kv_heads` were made of."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU; heads and widths grow with depth (arXiv:2404.14619)."""
    config = config.of_class(OWN, **ALIASES)
    config.ignore(*SAID_BY_LISTS)
    config.only("ffn_with_glu", True, default=True)
    config.only("normalization_layer_name", "rms_norm", default="rms_norm")
    queries, keys, widths = (
        _entries(config, name) for name in ("num_query_heads", "num_kv_heads", "ffn_multipliers")
    )
    layers = [
        {"kind": "pre_norm", "attention": _attention(config, heads, kv_heads), "ffn": _network(config, times)}
        for heads, kv_heads, times in zip(queries, keys, widths, strict=True)
    ]
    return decoder(config, {"kind": "rmsnorm", "eps": 1e-6}, layers)


def _entries(config: Config, name: str) -> list[ConfigValue[float]]:
    """A positive number for each layer."""
    entries, place = config.per_layer(name, config.layers()), config.place(name)
    if entries is None or not all(is_number(entry) and entry > 0 for entry in entries):
        raise config.error(f"{name} must have a number above 0 for each layer", at=place)
    return [ConfigValue(entry, place) for entry in entries]


def _attention(config: Config, heads: ConfigValue[float], kv_heads: ConfigValue[float]) -> Mapped:
    width, base = config.size("head_dim"), {"rope_theta": config.number("rope_freq_constant")}
    normalized = config.flag("normalize_qk_projections", default=False)
    even = width.value * heads.value == config.size("hidden_size").value
    return without_none(
        {
            **head_counts(heads.derive(int(heads.value)), kv_heads.derive(int(kv_heads.value))),
            "head_dim": None if even else width,
            "position": position(config, width, base),
            "qk_norm": PER_HEAD if normalized else None,
        }
    )


def _network(config: Config, times: ConfigValue[float]) -> Mapped:
    """A network of `times` the width, rounded to a multiple, by no more than a tenth down."""
    exact, multiple = times.value * config.size("hidden_size").value, config.size("ffn_dim_divisor").value
    rounded = max(multiple, int(exact + multiple / 2) // multiple * multiple)
    d_ff = rounded + multiple if rounded < 0.9 * exact else rounded
    return {"kind": "glu", "d_ff": times.derive(d_ff), "activation": activation(config, "activation_fn_name")}


WEIGHTS: Weights = {
    "[transformer.]token_embeddings.weight": "embedding.tokens.weight",
    "[transformer.]layers.*.attn_norm.weight": "layers.*.attention_norm.weight",
    "[transformer.]layers.*.attn.qkv_proj.*": Parts(FUSED),
    "[transformer.]layers.*.attn.q_norm.weight": "layers.*.attention.q_norm.weight",
    "[transformer.]layers.*.attn.k_norm.weight": "layers.*.attention.k_norm.weight",
    "[transformer.]layers.*.attn.out_proj.weight": "layers.*.attention.o_proj.weight",
    "[transformer.]layers.*.ffn_norm.weight": "layers.*.ffn_norm.weight",
    "[transformer.]layers.*.ffn.proj_1.weight": GATE_UP,
    "[transformer.]layers.*.ffn.proj_2.weight": "layers.*.ffn.down_proj.weight",
    "[transformer.]norm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
