"""Qwen 1.5 and 2 with experts: Qwen2MoeConfig and Qwen2MoeForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, windows
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import every_step, experts, normalized_by, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, SHARED

MODEL_TYPES = ("qwen2_moe",)

OWN = {"sliding_window": 4096}


def mapping(config: Config) -> Mapped:
    """As Qwen 2, with routed experts and a shared one behind a sigmoid gate.

    Where windows are used, every other layer before max_window_layers has one.
    """
    config = config.of_class(OWN)
    last, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    bias = ["q", "k", "v"] if config.flag("qkv_bias") else False
    width = head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {"kind": "pre_norm", "attention": attention(config, width, bias=bias, window=window)}

    layers = windows(config, layer, lambda index: index % 2 == 0 and index < last, used=used)
    layers = with_networks(layers, every_step(config), lambda: gated(config), lambda: _experts(config))
    return decoder(config, rmsnorm(config), layers)


def _experts(config: Config) -> Mapped:
    width = config.count("shared_expert_intermediate_size")
    if width == 0:
        what, hint = "shared_expert_intermediate_size 0 is not supported", "its gate needs an expert"
        raise config.error(what, hint, width.place)
    shared = gated(config, width="shared_expert_intermediate_size")
    return experts(config, router=normalized_by(config), shared=shared, shared_gate=True)


WEIGHTS: Weights = {
    **LLAMA,
    **EXPERTS,
    **SHARED,
    "[model.]layers.*.mlp.shared_expert_gate.weight": "layers.*.ffn.shared_gate.weight",
}
