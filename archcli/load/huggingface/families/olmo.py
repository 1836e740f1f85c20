"""OLMo 1: OlmoConfig and OlmoForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, optional_number
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, layernorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("olmo",)

EPS = 1e-5
"""Fixed in OlmoLayerNorm."""


def mapping(config: Config) -> Mapped:
    """As Llama with a LayerNorm that has no parameters; clip_qkv clips queries, keys and values."""
    config = config.of_class()
    clip = optional_number(config, "clip_qkv")
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), bias=config.flag("attention_bias"), clip=clip),
        "ffn": gated(config),
    }
    return decoder(config, layernorm(EPS, weight=False, bias=False), [layer] * config.layers())


WEIGHTS: Weights = LLAMA
