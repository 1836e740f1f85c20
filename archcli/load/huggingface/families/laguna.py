"""Poolside's Laguna: LagunaConfig and LagunaForCausalLM."""

from dataclasses import replace

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import (
    FULL,
    PER_HEAD,
    SLIDING,
    attention,
    check_window,
    head_dim,
    windows,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import by_types, experts, some_routed
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope_of_type
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, QK_NORM, SHARED

MODEL_TYPES = ("laguna",)
ROPES = {
    FULL: {"rope_theta": 500000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 1.0},
}
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    "[model.]layers.*.mlp.gate.e_score_correction_bias": "layers.*.ffn.correction.weight",
    "[model.]layers.*.self_attn.g_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.mlp.experts.e_score_correction_bias": "layers.*.ffn.correction.weight",
}


def mapping(config: Config) -> Mapped:
    """Heads that differ in number by layer, gated by a softplus; experts by sigmoid scores."""
    config = config.of_class()
    check_window(config)
    config.only("moe_apply_router_weight_on_input", False, default=False)
    count = config.layers()
    numbers = _heads(config, count)
    made = {number: _layers(config, number) for number in dict.fromkeys(numbers)}
    layers = [made[number][index] for index, number in enumerate(numbers)]
    routed = by_types(config, lambda: [index > 0 for index in range(count)])
    return decoder(config, rmsnorm(config), some_routed(config, routed, lambda: _experts(config))(layers))


def _heads(config: Config, count: int) -> list[int]:
    """The number of query heads of each layer."""
    stated = config.per_layer("num_attention_heads_per_layer", count)
    if stated is None:
        return [config.size("num_attention_heads").value] * count
    wrong = [number for number in stated if not isinstance(number, int) or number < 1]
    if wrong:
        what = f"num_attention_heads_per_layer must hold whole numbers above 0, not {short_repr(wrong[0])}"
        raise config.error(what, at=config.place("num_attention_heads_per_layer"))
    return stated


def _layers(config: Config, n_heads: int) -> list[Mapped]:
    """All layers, as if each had so many heads."""
    config = replace(config, data={**config.data, "num_attention_heads": n_heads})
    per = "head" if config.get("gating") in (True, "per-head") else "channel"
    gate, width = {"per": per, "activation": "softplus"}, head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        attend = attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=rope_of_type(config, width, FULL if window is None else SLIDING, ROPES),
            qk_norm=PER_HEAD,
            window=window,
            output_gate=gate,
        )
        return {"kind": "pre_norm", "attention": attend}

    return windows(config, layer, lambda _: False)


def _experts(config: Config) -> Mapped:
    cap, scale = config.number("moe_router_logit_softcapping"), config.number("moe_routed_scaling_factor")
    router = {
        "scores": "sigmoid",
        "correction": True,
        "correction_is": "parameter",
        "scale": scale,
        "softcap": cap if cap.value > 0 else None,
    }
    beside = config.count("shared_expert_intermediate_size")
    shared = gated(config, width="shared_expert_intermediate_size") if beside else None
    return experts(config, router=router, shared=shared)
