"""Decoders with RoPE and ungated networks: StarCoder 2 and Nemotron-4."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights


def _starcoder2(config: Config) -> Mapped:
    """Pre-norm, LayerNorm, RoPE, an ungated network; use_bias biases every matrix but the head."""
    config.only("mlp_type", "default", default="default")
    config.only("norm_type", "layer_norm", default="layer_norm")
    bias = config.flag("use_bias")
    layer = {
        "kind": "pre_norm",
        "attention": hf.attention(config, hf.head_dim(config), bias=bias, window=hf.window(config)),
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act", bias=bias),
    }
    return hf.decoder(config, hf.layernorm(config.number("norm_epsilon")), [layer] * config.layers())


STARCODER2_WEIGHTS: Weights = {
    **hf.LLAMA,
    "[model.]layers.*.mlp.c_fc.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.c_proj.*": "layers.*.ffn.down_proj.*",
}


def _nemotron(config: Config) -> Mapped:
    """Pre-norm, LayerNorm of weights stored minus one, RoPE on half of each head, an ungated network."""
    config.ignore("rms_norm_eps")  # files state it beside norm_eps, which the class reads
    width = hf.head_dim(config)
    layer = {
        "kind": "pre_norm",
        "attention": hf.attention(
            config, width, bias=config.flag("attention_bias"), position=hf.rope(config, width, partial=0.5)
        ),
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias")),
    }
    norm = hf.layernorm(config.number("norm_eps")) | {"offset": 1}
    return hf.decoder(config, norm, [layer] * config.layers())


FAMILIES = {
    "starcoder2": Family(
        "StarCoder 2: Starcoder2Config and Starcoder2ForCausalLM.", _starcoder2, STARCODER2_WEIGHTS
    ),
    "nemotron": Family(
        "Nemotron-4 and Minitron: NemotronConfig and NemotronForCausalLM.", _nemotron, hf.LLAMA
    ),
}
