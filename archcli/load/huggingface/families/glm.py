"""GLM-4 9B in transformers' own form: GlmConfig and GlmForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import GATE_UP, LLAMA

MODEL_TYPES = ("glm",)


def mapping(config: Config) -> Mapped:
    """As Llama with biased queries, keys and values, and interleaved RoPE on half of each head."""
    config = config.of_class()
    width = head_dim(config)
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    place = rope(config, width, pairing="interleaved", partial=0.5)
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, width, bias=bias, position=place),
        "ffn": gated(config),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = {**LLAMA, "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP}
