"""OLMo 1 to 3, OLMoE, FlexOlmo and Olmo Hybrid."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.delta_hybrid import DELTA, ELSEWHERE, LAYER, by_kind, delta_net
from archcli.load.huggingface.whole.llama_like import like_llama, llama_like

BARE_NORM = hf.layernorm(1e-5, weight=False, bias=False)
"""OlmoLayerNorm, which has no parameters and a fixed eps."""

OF_ALL_HEADS = {"qk_norm": {"per": "full"}}
"""One norm over all queries, and one over all keys."""

AFTER = {"kind": "norm_after"}
"""Norms after attention and network, inside the residual."""


def _clipped(config: Config) -> Mapped:
    """clip_qkv clips queries, keys and values."""
    return {"clip": hf.optional_number(config, "clip_qkv")}


PERIOD = 4
"""Of four layers, three have the window, where `layer_types` says nothing."""


def _olmo3(config: Config) -> Mapped:
    """OLMo 2 with windows; `rope_scaling` stretches the RoPE of the layers without a window alone."""
    width, stretched = hf.head_dim(config), hf.parameters(config, "rope_scaling")
    near = hf.position(config, width, hf.parameters(config, "rope_parameters", hf.SLIDING))
    far = hf.position(config, width, {**hf.parameters(config, "rope_parameters", hf.FULL), **stretched})

    def heads(window: ConfigValue[int] | None) -> Mapped:
        return {**OF_ALL_HEADS, "position": far if window is None else near}

    return llama_like(config, heads=heads, block=AFTER, slides=lambda index: (index + 1) % PERIOD != 0)


def _olmoe_heads(config: Config) -> Mapped:
    """A norm over all queries or keys, which clip_qkv clips."""
    clip = hf.optional_number(config, "clip_qkv")
    return {**OF_ALL_HEADS, **({"clip": clip, "clips_normed": True} if clip else {})}


def _routed(config: Config) -> Mapped:
    return hf.experts(config, width="intermediate_size", router=hf.normalized_by(config))


HYBRID_UNREAD = "linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor"
"""Keys of how weights are initialized."""

# the eps of the delta net's norm, which the class does not take from rms_norm_eps
NORM_EPS = 1e-5


def _olmo_hybrid(config: Config) -> Mapped:
    """Gated delta nets with norms before, attention with norms after in every fourth layer."""
    config.ignore(*HYBRID_UNREAD.split())
    width, ffn = hf.head_dim(config), hf.gated(config)
    attend = hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=_hybrid_position(config, width),
        **OF_ALL_HEADS,
    )
    delta = delta_net(config.with_defaults(**_hybrid_widths(config)), NORM_EPS)
    delta["neg_eigval"] = config.flag("linear_allow_neg_eigval")
    layers = {
        hf.LINEAR: {"kind": "pre_norm", "mixer": delta, "ffn": ffn},
        hf.FULL: {"kind": "norm_after", "attention": attend, "ffn": ffn},
    }
    return hf.decoder(config, hf.rmsnorm(config), [layers[kind] for kind in _hybrid_kinds(config)])


def _hybrid_widths(config: Config) -> dict[str, Any]:
    """Defaults of the delta net: attention's number of heads, keys 0.75 d_model wide, values twice that."""
    heads = config.size("num_attention_heads")
    keys = config.size("linear_num_key_heads", default=heads)
    usual = int(0.75 * config.size("hidden_size").value / keys.value)
    width = config.size("linear_key_head_dim", default=ConfigValue(usual, keys.place))
    return {
        "linear_num_key_heads": heads.value,
        "linear_num_value_heads": heads.value,
        "linear_key_head_dim": usual,
        "linear_value_head_dim": 2 * width.value,
    }


def _hybrid_position(config: Config, width: ConfigValue[int]) -> ConfigValue[Mapped] | Mapped:
    """RoPE, or no position where the file states a null rope_theta."""
    nested = config.get("rope_scaling", default=None) or config.get("rope_parameters", default=None)
    holder = nested if isinstance(nested, dict) and "rope_theta" in nested else config.data
    return {"kind": "none"} if holder.get("rope_theta", 0) is None else hf.rope(config, width)


def _hybrid_kinds(config: Config) -> list[str]:
    """The mixer of each layer; without a list every fourth attends, the last where there are fewer."""
    count = config.layers()
    default = [hf.FULL if index % PERIOD == PERIOD - 1 else hf.LINEAR for index in range(count)]
    return hf.kinds_of_layers(
        config, default if hf.FULL in default else [*default[:-1], hf.FULL], (hf.LINEAR, hf.FULL)
    )


LINEAR_LAYERS: Weights = {
    **DELTA,
    f"{LAYER}.linear_attn.o_norm.weight": "layers.*.mixer.norm.weight",
    **{
        f"{LAYER}.linear_attn.{name}_proj.weight": f"layers.*.mixer.{name}_proj.weight"
        for name in ("q", "k", "v", "a", "b", "g", "o")
    },
    **{f"{LAYER}.linear_attn.{name}_conv1d.weight": f"layers.*.mixer.{name}_conv.weight" for name in "qkv"},
    **{
        f"{LAYER}.{name}.weight": "layers.*.mixer_norm.weight"
        for name in ("input_layernorm", "attention_layer_norm")
    },
    **{
        f"{LAYER}.{name}.weight": "layers.*.ffn_norm.weight"
        for name in ("post_attention_layernorm", "feedforward_layer_norm")
    },
}
"""Names of published files, and of the class, which has one convolution and Llama's names of norms."""

FULL_LAYERS: Weights = {
    **{f"{LAYER}.self_attn.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkvo"},
    **hf.QK_NORM,
    **{
        f"{LAYER}.{name}.weight": "layers.*.attention_norm.weight"
        for name in ("post_attention_layernorm", "feedforward_layer_norm")
    },
    f"{LAYER}.post_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
}


def _hybrid_weights(config: Config) -> Weights:
    """Weight names, those of norms by the kind of layer."""
    elsewhere = {name: rule for name, rule in ELSEWHERE.items() if ".post_attention_" not in name}
    return {**elsewhere, **by_kind(_hybrid_kinds(config), LINEAR_LAYERS, FULL_LAYERS)}


ABOUT_MIXTURES = (
    "OLMoE and FlexOlmo: OlmoeConfig and OlmoeForCausalLM, FlexOlmoConfig and FlexOlmoForCausalLM."
)
OF_EXPERTS = {"num_local_experts": "num_experts"}

FAMILIES = {
    "olmo": like_llama("OLMo 1: OlmoConfig and OlmoForCausalLM.", heads=_clipped, norm=BARE_NORM),
    "olmo2": like_llama(
        "OLMo 2: Olmo2Config and Olmo2ForCausalLM.",
        hf.NORM_AFTER,
        ignored=("use_qk_norm",),  # the class has these norms whatever the file says
        heads=OF_ALL_HEADS,
        block=AFTER,
    ),
    "olmo3": Family(
        "OLMo 3: Olmo3Config and Olmo3ForCausalLM.", _olmo3, hf.NORM_AFTER, defaults={"rope_theta": 500000.0}
    ),
    "olmoe": like_llama(
        ABOUT_MIXTURES,
        {**hf.LLAMA, **hf.QK_NORM, **hf.EXPERTS},
        aliases=OF_EXPERTS,
        heads=_olmoe_heads,
        ffn=_routed,
    ),
    "flex_olmo": like_llama(
        ABOUT_MIXTURES,
        {**hf.NORM_AFTER, **hf.QK_NORM, **hf.EXPERTS},
        aliases=OF_EXPERTS,
        heads=OF_ALL_HEADS,
        block=AFTER,
        ffn=_routed,
    ),
    "olmo_hybrid": Family(
        "Olmo Hybrid: OlmoHybridConfig and OlmoHybridForCausalLM.", _olmo_hybrid, _hybrid_weights
    ),
}
