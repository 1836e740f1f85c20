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

DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "tie_word_embeddings": True,
}


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm of weights stored minus one, GeGLU, embeddings times sqrt(d_model).

    `gelu` in old files means its tanh form.
    """
    config = config.of_class(DEFAULTS)
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
