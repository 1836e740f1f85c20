"""Mistral: MistralConfig and MistralForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("mistral",)


def mapping(config: Config) -> Mapped:
    """As Llama without biases; every layer has the sliding window unless it is null."""
    config = config.of_class()
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), window=window(config)),
        "ffn": gated(config),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = LLAMA
