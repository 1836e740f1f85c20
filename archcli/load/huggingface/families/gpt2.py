"""GPT-2, and GPT-3 as far as it is published: GPT2Config and GPT2LMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.common import decoder, layernorm, mlp
from archcli.load.huggingface.config import Config, Mapped, without_none
from archcli.load.huggingface.names import GPT2
from archcli.load.huggingface.weights import Weights

MODEL_TYPES = ("gpt2",)

DEFAULTS = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}

SUMMARY = ("summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj")
"""Keys of a classifier that a language model does not have."""


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, learned positions, MHA and a feed-forward network of width 4 d_model, all biased."""
    config = config.of_class(DEFAULTS, **ALIASES)
    config.only("add_cross_attention", False)
    config.ignore("reorder_and_upcast_attn", *SUMMARY)
    width = config.size("hidden_size")
    ffn = mlp(config, config.size("n_inner", default=4 * width), "activation_function")
    layers = [
        {"kind": "pre_norm", "attention": _attention(config, width, index), "ffn": ffn}
        for index in range(config.layers())
    ]
    norm = layernorm(config.number("layer_norm_epsilon"))
    return decoder(config, norm, layers, embedding={"position": {"kind": "learned"}})


def _attention(config: Config, width: int, index: int) -> Mapped:
    """`scale_attn_weights` false leaves scores unscaled; `scale_attn_by_inverse_layer_idx` divides them by the layer's number from 1."""
    heads, scale = config.size("num_attention_heads"), None
    if not config.flag("scale_attn_weights"):
        scale = 1.0
    if config.flag("scale_attn_by_inverse_layer_idx"):
        scale = (max(1, width // heads) ** -0.5 if scale is None else scale) / (index + 1)
    return without_none({"kind": "mha", "n_heads": heads, "bias": True, "scale": scale})


WEIGHTS: Weights = GPT2
