"""GPT-2, GPT-SW3, and GPT-3 where its paper states the shape: GPT2Config and GPT2LMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import GPT2
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width

MODEL_TYPES = ("gpt2", "gpt-sw3")


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, learned positions, MHA, a feed-forward network 4 d_model wide, all biased."""
    config = config.of_class(**GPT_ALIASES)
    config.only("add_cross_attention", False)
    config.ignore("reorder_and_upcast_attn", *SUMMARY)
    width = config.size("hidden_size")
    config.restated(intermediate_size=inner_width(config).value)
    ffn = mlp(config, inner_width(config), "activation_function")
    layers = [
        {"kind": "pre_norm", "attention": _attention(config, width, index), "ffn": ffn}
        for index in range(config.layers())
    ]
    norm = layernorm(config.number("layer_norm_epsilon"))
    return decoder(config, norm, layers, embedding={"position": {"kind": "learned"}})


def _attention(config: Config, width: ConfigValue[int], index: int) -> Mapped:
    """MHA with the scale 1/sqrt(head_dim) or 1, optionally divided by the layer's number.

    scale_attn_weights false means 1; scale_attn_by_inverse_layer_idx divides by the number, counted from 1.
    """
    heads, scale = config.size("num_attention_heads"), None
    if not config.flag("scale_attn_weights"):
        scale = 1.0
    if config.flag("scale_attn_by_inverse_layer_idx"):
        head_width = max(1, width.value // heads.value)
        scale = (head_width**-0.5 if scale is None else scale) / (index + 1)
    return without_none({"kind": "mha", "n_heads": heads, "bias": True, "scale": scale})


WEIGHTS: Weights = GPT2
