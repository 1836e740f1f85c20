"""Gemma 3, its text part, and EmbeddingGemma: Gemma3TextConfig, Gemma3ForCausalLM and Gemma3TextModel.

Files of the models with vision nest it in text_config.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import (
    PER_HEAD,
    attention,
    head_dim,
    optional_number,
    query_scale,
    windows,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import QK_NORM, SANDWICH
from archcli.load.huggingface.whole.gemma_like import near_and_far

MODEL_TYPES = ("gemma3_text",)

OWN = {"sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0}


def mapping(config: Config) -> Mapped:
    """Gemma 2 with normalized queries and keys in place of soft caps.

    Of six layers, five have a window and a RoPE of their own. With use_bidirectional_attention it is an
    encoder, whose windows lie half to each side.
    """
    config = config.of_class(OWN)
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    config.ignore("hidden_act", "_sliding_window_pattern")
    width, bias = head_dim(config), config.flag("attention_bias")
    ffn, scale = gated(config, act="hidden_activation"), query_scale(config, width)
    cap = optional_number(config, "attn_logit_softcapping")
    period = config.size("sliding_window_pattern").value
    near, far = near_and_far(config, width)
    encodes = _encodes(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        attend = attention(
            config,
            width,
            bias=bias,
            position=far if window is None else near,
            qk_norm=PER_HEAD,
            scale=scale,
            softcap=cap,
            **(_to_both_sides(window) if encodes else {"window": window}),
        )
        return {"kind": "sandwich", "attention": attend, "ffn": ffn}

    layers = windows(config, layer, lambda index: (index + 1) % period != 0)
    norm, embedding = rmsnorm(config, offset=1), {"scale": "sqrt_d_model"}
    final_cap = optional_number(config, "final_logit_softcapping")
    if encodes:
        return decoder(config, norm, layers, kind="encoder", embedding={**embedding, "tied": False})
    head = None if final_cap is None else {"softcap": final_cap}
    return decoder(config, norm, layers, embedding=embedding, head=head)


def _encodes(config: Config) -> bool:
    """Whether tokens see those after them too, which a model that predicts the next token cannot."""
    if not config.get("use_bidirectional_attention"):
        return False
    if config.has_head:
        what = f"use_bidirectional_attention in {config.architecture} is not supported"
        raise config.error(what, "an encoder has no output head", config.place("use_bidirectional_attention"))
    return True


def _to_both_sides(window: ConfigValue[int] | None) -> Mapped:
    """A window half to each side of a token, which it is in the middle of."""
    sparsity = None if window is None else {"kind": "longformer", "window": window}
    return {"causal": False, "sparsity": sparsity}


WEIGHTS: Weights = {**SANDWICH, **QK_NORM}
