"""DeciLM 6B and 7B, whose class is in their repositories: DeciLMConfig."""

from __future__ import annotations

from dataclasses import replace

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("deci",)
OWN = {"mlp_bias": None}
HEADS = "num_key_value_heads_per_layer"


def mapping(config: Config) -> Mapped:
    """As Llama, each layer with its own number of key heads."""
    config = config.of_class(OWN, like="llama")
    config.ignore("num_key_value_heads")
    counts = config.per_layer(HEADS, config.layers())
    if counts is None:
        raise config.error(f"key {HEADS!r} is missing", "it has an entry for each layer")
    ffn, width, bias = gated(config), head_dim(config), config.flag("attention_bias")

    def layer(count: object) -> Mapped:
        own = replace(config, data={**config.data, "num_key_value_heads": count})
        return {"kind": "pre_norm", "attention": attention(own, width, bias=bias), "ffn": ffn}

    return decoder(config, rmsnorm(config), [layer(count) for count in counts])


WEIGHTS: Weights = LLAMA
