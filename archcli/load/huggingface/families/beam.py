"""Beam of Reflection: BeamConfig and BeamForCausalLM."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import (
    FULL,
    PER_HEAD,
    SLIDING,
    attention,
    head_dim,
    optional_number,
    windows,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import by_types, corrected_router, experts, some_routed
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, QK_NORM, SANDWICH

MODEL_TYPES = ("beam",)

PERIOD, DENSE = 6, 3
NOPE = {"kind": "none"}
TEMPERED = {"scale": 0.1, "floor_scale": 2048, "grows": "power"}
WEIGHTS: Weights = {
    **SANDWICH,
    **QK_NORM,
    **EXPERTS,
    **CORRECTED,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.self_attn.gate_bias": "layers.*.attention.gate_proj_heads_bias.bias",
}


def mapping(config: Config) -> Mapped:
    """Norms on both sides, gated heads, RoPE in windows alone, experts by sigmoid scores.

    Every branch has the same share of the stream.
    """
    config = config.of_class()
    count = config.layers()
    layers = windows(config, _layer(config), lambda i: (i + 1) % PERIOD != 0 and i < count - 1)
    routed = by_types(config, lambda: [index >= DENSE for index in range(count)])
    layers = some_routed(config, routed, lambda: experts(config, router=corrected_router(config)))(layers)
    layers = [{**layer, "nth_branch": 2 * (index + 1)} for index, layer in enumerate(layers)]
    cap = optional_number(config, "final_logit_softcapping")
    return decoder(config, rmsnorm(config), layers, head=None if cap is None else {"softcap": cap})


def _layer(config: Config) -> Callable[[ConfigValue[int] | None], Mapped]:
    """What makes a layer with this window, or none."""

    def layer(window: ConfigValue[int] | None) -> Mapped:
        width, kind = head_dim(config), FULL if window is None else SLIDING
        turned = _turned(config, kind)
        attend = attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=position(config, width, parameters(config, "rope_parameters", kind)) if turned else NOPE,
            qk_norm=PER_HEAD,
            window=window,
            temperature=None if turned else TEMPERED,
            output_gate={"bias": True},
        )
        return {"kind": "sandwich", "attention": attend}

    return layer


def _turned(config: Config, kind: str) -> bool:
    """Whether layers of this kind have RoPE: those for which rope_parameters states some."""
    stated = config.get("rope_parameters", default=None)
    if stated is None:
        return kind == SLIDING
    if not isinstance(stated, dict) or kind not in stated:
        what = f"rope_parameters must say of {kind} which RoPE it has, or null"
        raise config.error(what, at=config.place("rope_parameters"))
    return stated[kind] is not None
