"""Muse Glimmer."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import (
    FULL,
    SLIDING,
    attention,
    head_dim,
    layer_types,
    positive,
    window,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import SANDWICH

PERIOD = 4


def _muse_glimmer(config: Config) -> Mapped:
    """Sandwich norms, gated attention with normalized queries and keys, every fourth layer global.

    Global layers, counted from the last one back, have neither a position nor a window.
    """
    config.ignore("hidden_act")
    count = config.layers()
    slides = [(count - 1 - index) % PERIOD != 0 for index in range(count)]
    types = layer_types(config, [SLIDING if slide else FULL for slide in slides])
    thetas = config.per_layer("layer_rope_theta", count)
    has_rope = slides if thetas is None else [bool(theta) for theta in thetas]
    kinds = list(zip(types, has_rope, strict=True))
    layers = {kind: _layer(config, *kind) for kind in dict.fromkeys(kinds)}
    plain = {**rmsnorm(config), "weight": False}
    head = {
        "scale": positive(config, "output_multiplier"),
        "softcap": positive(config, "final_logit_softcapping"),
    }
    return decoder(
        config, rmsnorm(config), [layers[kind] for kind in kinds], embedding={"norm": plain}, head=head
    )


def _layer(config: Config, kind: str, has_rope: bool) -> Mapped:
    """A layer of a kind, SLIDING or FULL, with RoPE or without positions."""
    width, norm = head_dim(config), rmsnorm(config, offset=1)
    slides = window(config) if kind == SLIDING else None
    if kind == SLIDING and slides is None:
        raise config.error(
            "sliding layers need a window", "state sliding_window", config.place("layer_types")
        )
    factor = positive(config, "qk_scale_factor")
    attend = attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=rope(config, width) if has_rope else {"kind": "none"},
        window=slides,
        qk_norm={"norm": {**rmsnorm(config), "weight": False}},
        scale=factor.derive(factor.value * width.value**-0.5),
        output_gate={},
    )
    return {
        "kind": "sandwich",
        "attention": attend,
        "ffn": gated(config, act="hidden_activation"),
        "norm": norm,
        "post_norm": {**norm, "eps": config.number("post_norm_eps")},
    }


MUSE_GLIMMER_WEIGHTS: Weights = {
    **SANDWICH,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
}


FAMILIES = {
    "muse_glimmer_text": Family(
        "Muse Glimmer's text part: MuseGlimmerTextConfig and MuseGlimmerForConditionalGeneration.",
        _muse_glimmer,
        MUSE_GLIMMER_WEIGHTS,
    ),
}
