"""Orion-14B, whose class is in its repository: OrionConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("orion",)
OWN = {
    "attention_bias": None,
    "mlp_bias": None,
    "vocab_size": 84608,
    "intermediate_size": 15360,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
}


def mapping(config: Config) -> Mapped:
    """As Llama with LayerNorm, whose eps is `rms_norm_eps`."""
    config = config.of_class(OWN, like="llama")
    return llama_like(config, norm=layernorm(config.number("rms_norm_eps")))


WEIGHTS: Weights = LLAMA
