"""StarCoder 2: Starcoder2Config and Starcoder2ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("starcoder2",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, RoPE, an ungated network; use_bias biases every matrix but the head."""
    config = config.of_class()
    config.only("mlp_type", "default", default="default")
    config.only("norm_type", "layer_norm", default="layer_norm")
    bias = config.flag("use_bias")
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), bias=bias, window=window(config)),
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act", bias=bias),
    }
    return decoder(config, layernorm(config.number("norm_epsilon")), [layer] * config.layers())


WEIGHTS: Weights = {
    **LLAMA,
    "[model.]layers.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
}
