"""Qwen 3, dense: Qwen3Config and Qwen3ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, attention, head_dim, windows
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM

MODEL_TYPES = ("qwen3",)

OWN = {"sliding_window": 4096}


def mapping(config: Config) -> Mapped:
    """As Qwen 2 with normalized queries and keys, and all four projections biased or none."""
    config = config.of_class(OWN)
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    first, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    ffn, width, bias = gated(config), head_dim(config), config.flag("attention_bias")

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {
            "kind": "pre_norm",
            "attention": attention(config, width, bias=bias, qk_norm=PER_HEAD, window=window),
            "ffn": ffn,
        }

    return decoder(config, rmsnorm(config), windows(config, layer, lambda index: index >= first, used=used))


WEIGHTS: Weights = {**LLAMA, **QK_NORM}
