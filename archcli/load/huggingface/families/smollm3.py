"""SmolLM 3: SmolLM3Config and SmolLM3ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING, attention, head_dim, layer_types, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("smollm3",)


def mapping(config: Config) -> Mapped:
    """As Llama, without position in every fourth layer; no_rope_layers is 1 where there is RoPE."""
    config = config.of_class()
    config.ignore("rope_parameters", "rope_scaling", "sliding_window")  # where no layer has a use for them
    config.ignore("max_window_layers")
    count, interval = config.layers(), config.size("no_rope_layer_interval").value
    rotated = config.per_layer("no_rope_layers", count) or [(i + 1) % interval != 0 for i in range(count)]
    width = window(config) if config.flag("use_sliding_window") else None
    types = layer_types(config, [SLIDING if width and not rotates else FULL for rotates in rotated])
    if width is None and SLIDING in types:
        what = f"layer_types names {SLIDING}, but there is no window"
        raise config.error(what, "state use_sliding_window and sliding_window", config.place("layer_types"))
    kinds = [(bool(rotates), kind == SLIDING) for rotates, kind in zip(rotated, types, strict=True)]
    made = {
        (rotates, slides): _layer(config, rotates=rotates, width=width if slides else None)
        for rotates, slides in dict.fromkeys(kinds)
    }
    return decoder(config, rmsnorm(config), [made[kind] for kind in kinds])


def _layer(config: Config, *, rotates: bool, width: ConfigValue[int] | None) -> Mapped:
    """One layer, with RoPE or without any position."""
    bias, place = config.flag("attention_bias"), None if rotates else {"kind": "none"}
    attend = attention(config, head_dim(config), bias=bias, position=place, window=width)
    return {"kind": "pre_norm", "attention": attend, "ffn": gated(config, bias=config.flag("mlp_bias"))}


WEIGHTS: Weights = LLAMA
