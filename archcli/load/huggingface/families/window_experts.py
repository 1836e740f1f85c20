"""Decoders of windows and experts: Beam, Laguna, MiMo-V2-Flash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Weights, parameters
from archcli.load.huggingface.whole.llama_like import llama_like

BEAM_PERIOD, BEAM_DENSE = 6, 3
"""By default every sixth layer and the last have no window, and the first three no experts."""
NOPE = {"kind": "none"}
# of queries in layers without RoPE; constants of the class
TEMPERATURE = {"scale": 0.1, "floor_scale": 2048, "grows": "power"}
BEAM_WEIGHTS: Weights = {
    **hf.SANDWICH,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.CORRECTED,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.self_attn.gate_bias": "layers.*.attention.gate_proj_heads_bias.bias",
}


def _beam(config: Config) -> Mapped:
    """Sandwich norms, gated heads, RoPE in windows alone, experts by sigmoid scores.

    Every sublayer has the same share of the residual stream.
    """
    count = config.layers()
    layers = hf.windows(config, _beam_layer(config), lambda i: (i + 1) % BEAM_PERIOD != 0 and i < count - 1)
    routed = hf.by_types(config, lambda: [index >= BEAM_DENSE for index in range(count)])
    layers = hf.some_routed(config, routed, lambda: hf.experts(config, router=hf.corrected_router(config)))(
        layers
    )
    # a layer has two branches, and shares go by the number of branches up to it
    layers = [{**layer, "nth_branch": 2 * (index + 1)} for index, layer in enumerate(layers)]
    cap = hf.optional_number(config, "final_logit_softcapping")
    return hf.decoder(config, hf.rmsnorm(config), layers, head=None if cap is None else {"softcap": cap})


def _beam_layer(config: Config) -> Callable[[ConfigValue[int] | None], Mapped]:
    """A function that makes a layer with a window, or without one."""

    def layer(window: ConfigValue[int] | None) -> Mapped:
        width, kind = hf.head_dim(config), hf.FULL if window is None else hf.SLIDING
        has_rope = _has_rope(config, kind)
        attend = hf.attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=hf.position(config, width, parameters(config, "rope_parameters", kind))
            if has_rope
            else NOPE,
            qk_norm=hf.PER_HEAD,
            window=window,
            temperature=None if has_rope else TEMPERATURE,
            output_gate={"bias": True},
        )
        return {"kind": "sandwich", "attention": attend}

    return layer


def _has_rope(config: Config, kind: str) -> bool:
    """Whether layers of this kind have RoPE: those for which rope_parameters is not null."""
    parameters = config.get("rope_parameters", default=None)
    if parameters is None:
        return kind == hf.SLIDING
    if not isinstance(parameters, dict) or kind not in parameters:
        what = f"rope_parameters must say of {kind} which RoPE it has, or null"
        raise config.error(what, at=config.place("rope_parameters"))
    return parameters[kind] is not None


LAGUNA_ROPES = {
    hf.FULL: {"rope_theta": 500000.0, "partial_rotary_factor": 0.5},
    hf.SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 1.0},
}
LAGUNA_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    "[model.]layers.*.mlp.gate.e_score_correction_bias": "layers.*.ffn.correction.weight",
    "[model.]layers.*.self_attn.g_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.mlp.experts.e_score_correction_bias": "layers.*.ffn.correction.weight",
}


def _laguna(config: Config) -> Mapped:
    """Heads that differ in number by layer, gated by a softplus; experts by sigmoid scores."""
    hf.check_window(config)
    config.only("moe_apply_router_weight_on_input", False, default=False)
    count = config.layers()
    numbers = _laguna_heads(config, count)
    stacks = {number: _laguna_layers(config, number) for number in dict.fromkeys(numbers)}
    layers = [stacks[number][index] for index, number in enumerate(numbers)]
    routed = hf.by_types(config, lambda: [index > 0 for index in range(count)])
    return hf.decoder(
        config, hf.rmsnorm(config), hf.some_routed(config, routed, lambda: _laguna_experts(config))(layers)
    )


def _laguna_heads(config: Config, count: int) -> list[int]:
    """The number of query heads of each layer."""
    numbers = config.per_layer("num_attention_heads_per_layer", count)
    if numbers is None:
        return [config.size("num_attention_heads").value] * count
    wrong = [number for number in numbers if not isinstance(number, int) or number < 1]
    if wrong:
        what = f"num_attention_heads_per_layer must hold whole numbers above 0, not {hf.short_repr(wrong[0])}"
        raise config.error(what, at=config.place("num_attention_heads_per_layer"))
    return numbers


def _laguna_layers(config: Config, n_heads: int) -> list[Mapped]:
    """All layers, as if each had `n_heads` heads."""
    config = replace(config, data={**config.data, "num_attention_heads": n_heads})
    per = "head" if config.get("gating") in (True, "per-head") else "channel"
    gate, width = {"per": per, "activation": "softplus"}, hf.head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        attend = hf.attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=hf.rope_of_type(config, width, hf.FULL if window is None else hf.SLIDING, LAGUNA_ROPES),
            qk_norm=hf.PER_HEAD,
            window=window,
            output_gate=gate,
        )
        return {"kind": "pre_norm", "attention": attend}

    return hf.windows(config, layer, lambda _: False)


def _laguna_experts(config: Config) -> Mapped:
    cap, scale = config.number("moe_router_logit_softcapping"), config.number("moe_routed_scaling_factor")
    router = {
        "scores": "sigmoid",
        "correction": True,
        "correction_is": "parameter",
        "scale": scale,
        "softcap": cap if cap.value > 0 else None,
    }
    return hf.experts(config, router=router, shared=hf.wide_shared_expert(config))


# 0.334 of 192 dims: 64 are turned
MIMO_ROPES = {
    hf.FULL: {"rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
    hf.SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 0.334},
}
MIMO_UNREAD = """
    rope_theta swa_rope_theta partial_rotary_factor layernorm_epsilon scoring_func topk_method
    n_shared_experts first_k_dense_replace attention_chunk_size
    attention_projection_layout
"""
"""Keys of published files that the class does not read, as its defaults say the same."""

MIMO_PERIOD = 6
"""By default layers 0, 5, 11, 17, … have no window."""

MIMO_WEIGHTS = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **hf.CORRECTED,
    **{
        f"[model.]layers.*.self_attn.{name}": "layers.*.attention.sinks.weight"
        for name in ("sinks", "attention_sink_bias")
    },
    "model.mtp.**": Auxiliary("multi-token prediction, which no class of transformers holds"),
}


def _mimo(config: Config) -> Mapped:
    """Narrow values; windows with sinks and twice the kv heads; DeepSeek-V3's experts, none is shared."""
    config = _with_own_token(config)
    hf.check_window(config)
    config.ignore(*MIMO_UNREAD.split())
    hf.without_prediction(config)
    _check_unread(config)
    width, values = hf.head_dim(config), config.size("v_head_dim")
    scale = None if config.stated_null("attention_value_scale") else config.number("attention_value_scale")

    def heads(window: ConfigValue[int] | None) -> Mapped:
        kv_heads = config.size("num_key_value_heads")
        doubled = hf.head_counts(config.size("num_attention_heads"), kv_heads.derive(2 * kv_heads.value))
        of_window = {"sinks": True, "n_kv_heads": None, **doubled}
        return {
            "bias": ["q", "k", "v"] if config.flag("attention_bias") else False,
            "position": hf.rope_of_type(config, width, hf.FULL if window is None else hf.SLIDING, MIMO_ROPES),
            "v_head_dim": values,
            "value_multiplier": scale,
            **({} if window is None else of_window),
        }

    routed = hf.by_types(config, lambda: [index > 0 for index in range(config.layers())])
    networks = hf.some_routed(config, routed, lambda: hf.experts(config, router=hf.corrected_router(config)))
    return llama_like(config, heads=heads, networks=networks, slides=_mimo_slides)


def _mimo_slides(index: int) -> bool:
    return index > 0 and (index + 1) % MIMO_PERIOD != 0


def _with_own_token(config: Config) -> Config:
    """The file with sliding_window, which counts the token itself; sliding_window_size does not."""
    before = config.optional_size("sliding_window_size")
    if before is None:
        return config
    return replace(config, data={**config.data, "sliding_window": before.value + 1})


def _check_unread(config: Config) -> None:
    """Refuse values of published files' keys that the class does not read, where they differ from it."""
    count, kv_heads = config.layers(), config.size("num_key_value_heads").value
    expected = {
        "hybrid_layer_pattern": [int(_mimo_slides(index)) for index in range(count)],
        "moe_layer_freq": [int(index > 0) for index in range(count)],
        "swa_num_attention_heads": config.size("num_attention_heads").value,
        "swa_num_key_value_heads": 2 * kv_heads,
        "swa_head_dim": config.size("head_dim").value,
        "swa_v_head_dim": config.size("v_head_dim").value,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
    }
    instead = {"hybrid_layer_pattern": "layer_types", "moe_layer_freq": "mlp_layer_types"}
    for key, value in expected.items():
        if key in instead and config.get(instead[key], default=None) is not None:
            config.ignore(key)
        else:
            config.only(key, value, default=value)


FAMILIES = {
    "beam": Family("Beam of Reflection: BeamConfig and BeamForCausalLM.", _beam, BEAM_WEIGHTS),
    "laguna": Family("Poolside's Laguna: LagunaConfig and LagunaForCausalLM.", _laguna, LAGUNA_WEIGHTS),
    "mimo_v2_flash": Family(
        "MiMo-V2-Flash: MiMoV2FlashConfig and MiMoV2FlashForCausalLM.",
        _mimo,
        MIMO_WEIGHTS,
        aliases=hf.EXPERT_WORDS,
    ),
}
