"""Qwen 3 with experts: Qwen3MoeConfig and Qwen3MoeForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, attention, head_dim, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import every_step, experts, normalized_by, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, QK_NORM

MODEL_TYPES = ("qwen3_moe",)

OWN = {"sliding_window": 4096}


def mapping(config: Config) -> Mapped:
    """As Qwen 3, with routed experts; all layers have a window or none.

    Where head_dim is not stated, a head is hidden_size / heads wide.
    """
    config = config.of_class(OWN, num_experts="num_local_experts")
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    config.ignore("max_window_layers")
    bias, width = config.flag("attention_bias"), head_dim(config)
    slides = window(config) if config.flag("use_sliding_window") else None
    attend = attention(config, width, bias=bias, qk_norm=PER_HEAD, window=slides)
    layers = [{"kind": "pre_norm", "attention": attend}] * config.layers()
    layers = with_networks(layers, every_step(config), lambda: gated(config), lambda: _experts(config))
    return decoder(config, rmsnorm(config), layers)


def _experts(config: Config) -> Mapped:
    return experts(config, router=normalized_by(config))


WEIGHTS: Weights = {**LLAMA, **EXPERTS, **QK_NORM}
