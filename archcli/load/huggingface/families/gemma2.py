"""Gemma 2: Gemma2Config and Gemma2ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import (
    attention,
    head_dim,
    optional_number,
    query_scale,
    windows,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import SANDWICH

MODEL_TYPES = ("gemma2",)


def mapping(config: Config) -> Mapped:
    """Sandwich norms, GeGLU, soft-capped scores and logits, a window in every other layer.

    Queries are scaled by query_pre_attn_scalar.
    """
    config = config.of_class()
    config.only("use_bidirectional_attention", None, False, default=None)
    config.ignore("hidden_act", "sliding_window_size")
    width, bias = head_dim(config), config.flag("attention_bias")
    ffn, scale = gated(config, act="hidden_activation"), query_scale(config, width)
    cap = optional_number(config, "attn_logit_softcapping")

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {
            "kind": "sandwich",
            "attention": attention(config, width, bias=bias, scale=scale, softcap=cap, window=window),
            "ffn": ffn,
        }

    layers = windows(config, layer, lambda index: index % 2 == 0)
    final_cap = optional_number(config, "final_logit_softcapping")
    head = None if final_cap is None else {"softcap": final_cap}
    return decoder(config, rmsnorm(config, offset=1), layers, embedding={"scale": "sqrt_d_model"}, head=head)


WEIGHTS: Weights = SANDWICH
