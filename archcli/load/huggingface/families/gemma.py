"""Gemma 1: GemmaConfig and GemmaForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("gemma",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm of weights stored minus one, GeGLU, embeddings times sqrt(d_model).

    `gelu` in old files means its tanh form.
    """
    config = config.of_class()
    config.only("use_bidirectional_attention", None, False, default=None)
    config.ignore("hidden_activation")
    ffn = gated(config)
    function = ffn["activation"]
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), bias=config.flag("attention_bias")),
        "ffn": ffn | ({"activation": function.derive("gelu_tanh")} if function == "gelu" else {}),
    }
    return decoder(
        config, rmsnorm(config, offset=1), [layer] * config.layers(), embedding={"scale": "sqrt_d_model"}
    )


WEIGHTS: Weights = LLAMA
