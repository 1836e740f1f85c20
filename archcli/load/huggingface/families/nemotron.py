"""Nemotron-4 and Minitron: NemotronConfig and NemotronForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("nemotron",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm of weights stored minus one, RoPE on half of each head, an ungated network."""
    config = config.of_class()
    config.ignore("rms_norm_eps")  # files state it beside norm_eps, which the class reads
    width = head_dim(config)
    layer = {
        "kind": "pre_norm",
        "attention": attention(
            config, width, bias=config.flag("attention_bias"), position=rope(config, width, partial=0.5)
        ),
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias")),
    }
    norm = layernorm(config.number("norm_eps")) | {"offset": 1}
    return decoder(config, norm, [layer] * config.layers())


WEIGHTS: Weights = LLAMA
