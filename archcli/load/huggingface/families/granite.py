"""Granite 3: GraniteConfig and GraniteForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import granite_like

MODEL_TYPES = ("granite",)


def mapping(config: Config) -> Mapped:
    """As Llama, with factors; attention_multiplier stands in place of head_dim^-0.5."""
    config = config.of_class()
    scale = config.number("attention_multiplier")
    return granite_like(config, heads={"bias": config.flag("attention_bias"), "scale": scale})


WEIGHTS: Weights = LLAMA
