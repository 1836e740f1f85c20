"""Phi-3, 3.5 and 4: Phi3Config and Phi3ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, GATE_UP, LLAMA

MODEL_TYPES = ("phi3",)

LONG = {"su": "longrope", "yarn": "longrope"}
"""Names that old files give to the one scaling the class knows."""


def mapping(config: Config) -> Mapped:
    """As Llama without any bias, with LongRoPE for long contexts."""
    config = config.of_class()
    width = head_dim(config)
    layer = {
        "kind": "pre_norm",
        "attention": attention(
            config, width, position=rope(config, width, partial=1.0, renamed=LONG), window=window(config)
        ),
        "ffn": gated(config),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = {
    **LLAMA,
    "[model.]layers.*.self_attn.qkv_proj.*": Parts(FUSED),
    "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP,
}
