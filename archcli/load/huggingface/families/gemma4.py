"""Gemma 4, its text part: Gemma4TextConfig and Gemma4ForCausalLM.

Files of the models with vision and audio nest it in text_config.
"""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import (
    FULL,
    PER_HEAD,
    SLIDING,
    check_window,
    head_counts,
    layer_types,
    optional_number,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.rope import Parameters, parameters, position
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.gemma_like import (
    NAMES,
    kv_sources,
    per_layer_embedding,
    without_own_keys,
)

MODEL_TYPES = ("gemma4_text", "gemma4_unified_text")
READS_PER_LAYER = True

OWN = {"global_head_dim": 512}
UNIFIED = {
    **OWN,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": False,
}
"""What Gemma4UnifiedTextConfig has otherwise; it has neither per-layer embeddings nor experts."""
NO_KEYS_OF = ("hidden_size_per_layer_input", "enable_moe_block")
Sizes = tuple[ConfigValue[int], ConfigValue[int]]
PERIOD = 6
"""By default each sixth layer is global; the last is, whatever a file says."""
ROPE: dict[str, dict[str, Any]] = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
}


def mapping(config: Config) -> Mapped:
    """Windowed layers and global ones with heads of another width; experts beside a network.

    Small models have per-layer embeddings, and late layers that read the keys and values of earlier ones.
    """
    unified = _is_unified(config)
    config = _of_class(config)
    for key in NO_KEYS_OF if unified else ():
        config.only(key, *(value for value in (0, False, None)), default=None)
    config.only("use_bidirectional_attention", None, "vision", default=None)
    config.ignore("global_head_dim", "num_global_key_value_heads")
    config.ignore("num_experts", "top_k_experts", "moe_intermediate_size")  # without enable_moe_block
    types = _types(config)
    check_window(config)
    heads = [_heads(config, i, kind) for i, kind in enumerate(types)]
    norm, width = rmsnorm(config), config.count("hidden_size_per_layer_input")
    block = _block(config, norm, gated=bool(width))
    layers = [
        {
            **block,
            "attention": _attention(config, kind, source, *sizes),
            "ffn": _network(config, shared=source is not None),
        }
        for kind, source, sizes in zip(types, kv_sources(config, types), heads, strict=True)
    ]
    cap = optional_number(config, "final_logit_softcapping")
    return decoder(
        config,
        norm,
        layers,
        embedding={"scale": "sqrt_d_model"},
        per_layer_embedding=per_layer_embedding(config) if width else None,
        head=None if cap is None else {"softcap": cap},
    )


def _is_unified(config: Config) -> bool:
    return config.model_type == "gemma4_unified_text"


def _of_class(config: Config) -> Config:
    return config.of_class(UNIFIED if _is_unified(config) else OWN)


def _types(config: Config) -> list[str]:
    count = config.layers()
    types = layer_types(config, [FULL if (i + 1) % PERIOD == 0 else SLIDING for i in range(count)])
    return [*types[:-1], FULL]


def _heads(config: Config, index: int, kind: str) -> Sizes:
    """The width of a layer's heads, and how many have keys: by the layer's number, else by its type."""
    width, kv_heads = config.size("head_dim"), config.size("num_key_value_heads")
    if "per_layer_config" in config.data:
        own = _by_number(config).get(index, {})
        return own.get("head_dim", width), own.get("num_key_value_heads", kv_heads)
    if kind != FULL:
        return width, kv_heads
    fewer = config.optional_size("num_global_key_value_heads") if config.flag("attention_k_eq_v") else None
    return config.size("global_head_dim"), kv_heads if fewer is None else fewer


def _by_number(config: Config) -> dict[int, dict[str, ConfigValue[int]]]:
    """What per_layer_config states of layers, by their numbers; null states nothing."""
    stated = config.value("per_layer_config", default={})
    layers: dict[str, Any] = stated.value if isinstance(stated.value, dict) else {"": None}
    for number, own in layers.items():
        numbered = isinstance(number, str) and number.isascii() and number.isdigit()
        if not numbered or not isinstance(own, dict) or own.keys() - {"head_dim", "num_key_value_heads"}:
            what = f"per_layer_config {short_repr(stated.value)} is not supported"
            hint = "known: head_dim and num_key_value_heads by a layer's number"
            raise config.error(what, hint, stated.place)
    return {
        int(number): {key: config.as_size(key, stated.derive(size)) for key, size in own.items()}
        for number, own in layers.items()
    }


def _attention(
    config: Config, kind: str, source: int | None, width: ConfigValue[int], kv_heads: ConfigValue[int]
) -> Mapped:
    keys = config.flag("attention_k_eq_v") and kind == FULL
    own = {"v_norm": {**rmsnorm(config), "weight": False}, "values": "keys" if keys else None}
    return without_none(
        {
            **head_counts(config.size("num_attention_heads"), kv_heads),
            "head_dim": width,
            "bias": config.flag("attention_bias") or None,
            "position": _position(config, width, kind),
            "window": None if kind == FULL else config.size("sliding_window"),
            "qk_norm": PER_HEAD,
            "scale": 1.0,
            **(own if source is None else {"kv_from": source}),
        }
    )


def _position(config: Config, width: ConfigValue[int], kind: str) -> ConfigValue[Mapped]:
    """RoPE of a type of layers, of whose head only the kind proportional leaves a part."""
    start = config.places.start
    known: Parameters = {key: ConfigValue(value, start) for key, value in ROPE[kind].items()}
    if config.get("rope_parameters", default=None) is not None:
        known = parameters(config, "rope_parameters", kind)
    if "rope_theta" not in known:
        what = f"rope_parameters need a mapping {kind!r} with a rope_theta"
        raise config.error(what, at=config.place("rope_parameters"))
    return position(config, width, known)


def _network(config: Config, *, shared: bool) -> Mapped:
    """GeGLU, of twice the width where keys and values are another layer's and the file says so."""
    width = config.size("intermediate_size")
    wide = width.derive(2 * width.value) if shared and config.flag("use_double_wide_mlp") else width
    return {"kind": "glu", "d_ff": wide, "activation": activation(config, "hidden_activation")}


def _block(config: Config, norm: Mapped, *, gated: bool) -> Mapped:
    """A layer without its attention and its network."""
    function = activation(config, "hidden_activation")
    block = {"kind": "sandwich", "stored_scale": True}
    if gated:
        block["per_layer_gate"] = function
    if config.flag("enable_moe_block"):
        block["beside"] = {
            "kind": "moe",
            "n_experts": config.size("num_experts"),
            "top_k": config.size("top_k_experts"),
            "expert": {"kind": "glu", "d_ff": config.size("moe_intermediate_size"), "activation": function},
            "router": {"norm": norm, "expert_scale": True},
            "expert_norm": norm,
            "out_norm": norm,
        }
    return block


def _experts(stored: str) -> str:
    return f"layers.*.beside.experts.{stored}.weight"


WEIGHTS: Weights = {
    **NAMES,
    "[model.]layers.*.layer_scalar": "layers.*.stored_scale.scale",
    "[model.]layers.*.router.scale": "layers.*.beside.router_norm.weight",
    "[model.]layers.*.router.proj.weight": "layers.*.beside.router.weight",
    "[model.]layers.*.router.per_expert_scale": "layers.*.beside.expert_scale.scale",
    "[model.]layers.*.experts.gate_up_proj": Parts((_experts("gate_proj"), _experts("up_proj")), axis=1),
    "[model.]layers.*.experts.down_proj": _experts("down_proj"),
    "[model.]layers.*.pre_feedforward_layernorm_2.weight": "layers.*.beside.expert_norm.weight",
    "[model.]layers.*.post_feedforward_layernorm_1.weight": "layers.*.ffn_own_norm.weight",
    "[model.]layers.*.post_feedforward_layernorm_2.weight": "layers.*.beside.out_norm.weight",
}


def weights(config: Config) -> Weights:
    """The names, with those of keys and values that files hold for layers which read others'."""
    config = _of_class(config)
    return {**WEIGHTS, **without_own_keys(kv_sources(config, _types(config)))}
