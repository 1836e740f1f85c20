"""Hunyuan 1 to 4."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.deepseek_like import (
    FULL_INDEX,
    INDEXER,
    SHARED_INDEX,
    index,
    index_sources,
    needs_query_latent,
    only_indexed,
    reading,
    stated_indexes,
)
from archcli.load.huggingface.whole.llama_like import llama_like

HUNYUAN_UNREAD = (
    "use_qk_norm",
    "attention_head_dim",
    "mlp_bias",
    "norm_type",
    "use_rotary_pos_emb",
    "org_vocab_size",
    "eod_token_id",
)
"""Keys of published files that the class does not read, and does as they say."""
HUNYUAN_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.self_attn.query_layernorm.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.self_attn.key_layernorm.weight": "layers.*.attention.k_norm.weight",
}


def _hunyuan(config: Config) -> Mapped:
    """As Llama with queries and keys normalized after RoPE, whose base an `alpha` stretches."""
    config.ignore(*HUNYUAN_UNREAD)
    config.only("use_cla", None, False, default=None)
    heads = {
        "position": hf.stretched_rope(config, hf.head_dim(config)),
        "qk_norm": {"per": "head", "when": "after_rope"},
    }
    return llama_like(config, heads=heads)


HUNYUAN_MOE_UNREAD = """
    use_qk_norm use_mixed_mlp_moe num_shared_expert moe_intermediate_size norm_topk_prob eod_token_id
    attention_head_dim moe_random_routing_dropped_token moe_drop_tokens
"""
"""Keys of published files that the class does not read, and does as they say."""


def _hunyuan_moe(config: Config) -> Mapped:
    """As Llama with queries and keys normalized after RoPE, and experts beside a shared one as wide.

    `moe_topk` may list the number of experts per token of each layer.
    """
    config.ignore(*HUNYUAN_MOE_UNREAD.split())
    width = hf.head_dim(config)
    attend = hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        qk_norm={"per": "head", "when": "after_rope"},
        position=hf.stretched_rope(config, width),
    )
    top_ks = _hunyuan_moe_top_ks(config)
    layers = {
        k: {"kind": "pre_norm", "attention": attend, "ffn": _hunyuan_moe_experts(config, k)} for k in top_ks
    }
    return hf.decoder(config, hf.rmsnorm(config), [layers[k] for k in top_ks])


def _hunyuan_moe_top_ks(config: Config) -> list[ConfigValue[int]]:
    """Experts per token of each layer."""
    entry = config.value("num_experts_per_tok")
    if not isinstance(entry.value, list):
        return [config.size("num_experts_per_tok")] * config.layers()
    counts = config.per_layer("num_experts_per_tok", config.layers()) or []
    return [config.as_size("moe_topk", entry.derive(count)) for count in counts]


def _hunyuan_moe_experts(config: Config, top_k: ConfigValue[int]) -> Mapped:
    expert = hf.gated(config)
    return hf.experts(config, expert=expert, shared=expert, top_k=top_k)


HUNYUAN_MOE_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **{
        f"[model.]layers.*.self_attn.{theirs}_layernorm.weight": f"layers.*.attention.{theirs[0]}_norm.weight"
        for theirs in ("query", "key")
    },
    "[model.]layers.*.mlp.gate.wg.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.shared_mlp.{name}_proj.weight": f"layers.*.ffn.shared.{name}_proj.weight"
        for name in ("gate", "up", "down")
    },
}


HY_V3_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    "[model.]layers.*.mlp.router.gate.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.{name}": "layers.*.ffn.route.correction_bias"
        for name in ("expert_bias", "e_score_correction_bias")
    },
    **{
        f"[model.]layers.*.mlp.shared_mlp.{name}_proj.*": f"layers.*.ffn.shared.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
}


def _hy_v3(config: Config) -> Mapped:
    """As Llama with normalized queries and keys; experts by sigmoid scores after a dense layer."""
    config.ignore("enable_moe_fp32_combine", "first_k_dense_replace")
    hf.without_prediction(config)
    bias = config.flag("mlp_bias")

    def dense() -> Mapped:
        return hf.gated(config, bias=bias)

    def sparse() -> Mapped:
        router = {"scores": "sigmoid", "scale": config.number("router_scaling_factor"), "correction": True}
        width, number = config.size("moe_intermediate_size"), config.count("num_shared_experts")
        shared = {**dense(), "d_ff": width.derive(number.value * width.value)} if number else dense()
        return hf.experts(config, router=router, shared=shared)

    routed = hf.by_types(config, lambda: [index > 0 for index in range(config.layers())])
    return llama_like(
        config,
        heads={"qk_norm": hf.PER_HEAD},
        networks=lambda layers: hf.with_networks(layers, routed, dense, sparse),
    )


HY_V4_PERIOD = 4
"""By default layers 0, 1, 5, 9, … have an index, and each other layer that of the one before it."""

STREAMS = {
    "layers.*.attn_hc.": "layers.*.attention_hyper",
    "layers.*.ffn_hc.": "layers.*.ffn_hyper",
    "layers.*.hc_pre.hc_attn_layer.hc_": "layers.*.attention_hyper",
    "layers.*.hc_pre.hc_mlp_layer.hc_": "layers.*.ffn_hyper",
    "hc_head.hc_": "hyper_head",
    "hc_pre.hc_head.hc_head_": "hyper_head",
}
"""Beginnings of the names of hyper-connections, in memory and in files, and archcli's."""

HY_V4_NUMBERS = {"fn": ".weight", "base": "_gates.base", "scale": "_gates.scale"}
HY_V4_LAYER = "[model.]layers.*."
HY_V4_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.MLA,
    **INDEXER,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    f"{HY_V4_LAYER}mlp.linear_gate.weight": "layers.*.ffn.gate_proj.weight",
    f"{HY_V4_LAYER}mlp.shared_experts.linear_gate.weight": "layers.*.ffn.shared.gate_proj.weight",
    **dict.fromkeys(
        (f"{HY_V4_LAYER}self_attn.{gate}.weight" for gate in ("gate_proj", "linear_gate")),
        "layers.*.attention.gate_proj.weight",
    ),
    **dict.fromkeys(
        (f"{HY_V4_LAYER}self_attn.{sinks}" for sinks in ("sinks", "learnable_sink_param")),
        "layers.*.attention.sinks.weight",
    ),
    **{
        f"[model.]{theirs}{number}": ours + rest
        for theirs, ours in STREAMS.items()
        for number, rest in HY_V4_NUMBERS.items()
    },
    "[model.]mtp_layers.**": Auxiliary(hf.PREDICTION),
}


def _hy_v4(config: Config) -> Mapped:
    """Gated latent attention with sinks and shared indexes, and clipped experts, on several streams."""
    config.ignore("learnable_sink_init", "first_k_dense_replace", "moe_layer_freq")
    config.ignore("scoring_func", "topk_method")
    hf.without_prediction(config)
    only_indexed(config)
    needs_query_latent(config)
    sources = index_sources(config, stated_indexes(config) or _hy_v4_default_indexes(config))
    layer, routed = _hy_v4_layer(config), hf.by_types(config, lambda: [i > 0 for i in range(config.layers())])
    networks = hf.some_routed(config, routed, lambda: _hy_v4_experts(config))
    return hf.decoder(config, hf.rmsnorm(config), networks(reading(layer, _hy_v4_attention(config), sources)))


def _hy_v4_default_indexes(config: Config) -> list[str]:
    return [FULL_INDEX if not i or i % HY_V4_PERIOD == 1 else SHARED_INDEX for i in range(config.layers())]


def _hy_v4_layer(config: Config) -> Mapped:
    """A layer without attention and network."""
    return {**hf.hyper_layer(config), "magnitude": hf.positive(config, "hc_magnitude")}


def _hy_v4_attention(config: Config) -> Mapped:
    """Gated latent attention with sinks; its index turns the last dims of a head."""
    place = hf.rope(config, config.size("qk_rope_head_dim"), scales_scores=True)
    keys = {"norm": hf.layernorm(config.number("rms_norm_eps"))}
    return {
        **hf.latent_attention(config, "half", place.derive({**place.value, "rotates": "last"})),
        "sinks": True,
        "output_gate": {"per": "channel"},
        "index": {**index(config), **keys},
    }


def _hy_v4_experts(config: Config) -> Mapped:
    """Clipped routed experts with SiLU, whatever hidden_act says, and shared ones with hidden_act."""
    expert = hf.gated(config, width="moe_intermediate_size")
    routed = {**expert, "activation": "silu", "limit": hf.positive(config, "swiglu_limit")}
    router = hf.corrected_router(config)
    return hf.experts(config, expert=routed, router=router, shared=hf.shared_experts(config, expert))


FAMILIES = {
    "hunyuan_v1_dense": Family(
        "Hunyuan, dense (0.5B to 7B): HunYuanDenseV1Config and HunYuanDenseV1ForCausalLM.",
        _hunyuan,
        HUNYUAN_WEIGHTS,
    ),
    "hunyuan_v1_moe": Family(
        "Hunyuan with experts (A13B): HunYuanMoEV1Config and HunYuanMoEV1ForCausalLM.",
        _hunyuan_moe,
        HUNYUAN_MOE_WEIGHTS,
        aliases={"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"},
    ),
    "hy_v3": Family(
        "Hunyuan 3: HYV3Config and HYV3ForCausalLM.",
        _hy_v3,
        HY_V3_WEIGHTS,
        aliases={"num_local_experts": "num_experts"},
    ),
    "hy_v4": Family(
        "Hy4, latent attention with shared indexes on several streams: HYV4Config and HYV4ForCausalLM.",
        _hy_v4,
        HY_V4_WEIGHTS,
        aliases=hf.EXPERT_WORDS,
    ),
}
