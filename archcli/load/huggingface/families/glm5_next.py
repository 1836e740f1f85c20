"""GLM-5.3: Kimi delta attention, latent attention to chosen pools of tokens, several residual streams."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.load.huggingface.weights.hybrid import kda_names
from archcli.load.huggingface.whole.deepseek_like import (
    INDEXED,
    INDEXED_BEFORE,
    INDEXER,
    SHARED_INDEX,
    index_types,
    needs_query_latent,
)
from archcli.load.huggingface.whole.delta_hybrid import by_kind

PERIOD, DENSE_LAYERS = 4, 3
"""Without lists every fourth layer attends, and all layers from the fourth on have experts."""

LINEAR_KEYS = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
    "gate_lower_bound": "linear_lower_bound",
}
"""Keys of `linear_attn_config` in published files, and the class's keys that they overrule."""
# the lower bound of the log decay that `safe_gate` stands for without a number
SAFE_BOUND = -5.0

UNREAD = """
    first_k_dense_replace num_key_value_heads head_dim indexer_rope_interleave index_share_for_mtp_iteration
    moe_router_dtype qk_head_dim rope_parameters rope_theta rope_scaling mtp_layer_types
"""
"""Keys that the class does not read."""
ONLY = {
    "mhc": True,
    "mla_use_nope": True,
    "index_kpool_compress": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "moe_layer_freq": 1,
}
"""Further keys of published files, with what the class does; it does not read them."""


def _glm5_next(config: Config) -> Mapped:
    """KDA, and in some layers latent attention to chosen pools; clipped networks; streams in all layers."""
    config = _with_linear_keys(config)
    config.ignore(*UNREAD.split())
    for key, value in ONLY.items():
        config.only(key, value, default=value)
    hf.without_prediction(config)
    kinds = _kinds(config)
    sources = _sources(config, kinds)
    layer = {**hf.hyper_layer(config), "sinkhorn": config.size("hc_sinkhorn_iters"), "last": "mean"}
    # one object for equal layers: each is written out once
    layers_by_kind = {
        (kind, source): {**layer, **_mixer(config, kind, source)}
        for kind, source in dict.fromkeys(zip(kinds, sources, strict=True))
    }
    layers = [layers_by_kind[both] for both in zip(kinds, sources, strict=True)]
    return hf.decoder(config, hf.rmsnorm(config), _with_networks(config, layers))


def _with_linear_keys(config: Config) -> Config:
    """The file with what `linear_attn_config` says at the class's keys."""
    inner = config.inner("linear_attn_config", {}).data
    if not inner:
        return config
    said = {LINEAR_KEYS[key]: inner[key] for key in inner if key in LINEAR_KEYS}
    if said.get("linear_lower_bound", SAFE_BOUND) is None and inner.get("safe_gate", True):
        said["linear_lower_bound"] = SAFE_BOUND
    return replace(config, data={**config.data, **said})


def _kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, else every fourth attends."""
    default = [hf.LINEAR if (index + 1) % PERIOD else INDEXED for index in range(config.layers())]
    kinds = hf.kinds_of_layers(config, default, (hf.LINEAR, INDEXED, INDEXED_BEFORE, hf.FULL))
    return [hf.LINEAR if kind == hf.LINEAR else INDEXED for kind in kinds]


def _sources(config: Config, kinds: list[str]) -> list[int | None]:
    """For each layer the layer whose choice of keys it reads: the one before it, or None."""
    shared = [
        index_kind == SHARED_INDEX and kind == INDEXED
        for index_kind, kind in zip(index_types(config), kinds, strict=True)
    ]
    for layer in (layer for layer, shares in enumerate(shared) if shares):
        # a layer passes its choice to the next one alone
        if layer == 0 or kinds[layer - 1] == hf.LINEAR or shared[layer - 1]:
            what = f"layer {layer} shares the index of the layer before it, which has none"
            raise config.error(what, at=config.place("indexer_types"))
    return [layer - 1 if shares else None for layer, shares in enumerate(shared)]


def _mixer(config: Config, kind: str, source: int | None) -> Mapped:
    """The mixer of the layers of a kind, under its key."""
    if kind == hf.LINEAR:
        return {"mixer": _delta_attention(config)}
    return {"attention": hf.without_none({**_attention(config), "index_from": source})}


def _delta_attention(config: Config) -> Mapped:
    bound = None if config.stated_null("linear_lower_bound") else config.number("linear_lower_bound")
    if bound is not None and bound.value >= 0:
        raise config.error(f"linear_lower_bound must be below 0, not {bound}", at=bound.place)
    mixer = {
        "kind": "kda",
        "n_heads": config.size("linear_num_heads"),
        "head_dim": config.size("linear_head_dim"),
        "conv_kernel": config.size("linear_conv_kernel_dim"),
        "activation": hf.activation(config, "hidden_act"),
        "decay_bound": bound,
        "norm": {**hf.rmsnorm(config), "gate": "after", "activation": "sigmoid"},
    }
    return hf.without_none(mixer)


def _attention(config: Config) -> Mapped:
    """Latent attention without positions, to the tokens of chosen pools."""
    needs_query_latent(config)
    for key, only in (("qk_rope_head_dim", 0), ("index_kpool_always_select_tail", True)):
        config.only(key, only)
    sizes = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim")
    return {
        "kind": "mla",
        "n_heads": config.size("num_attention_heads"),
        **{key: config.size(key) for key in sizes},
        **({"bias": True} if config.flag("attention_bias") else {}),
        "index": _index(config),
    }


def _index(config: Config) -> Mapped:
    """The index of pools; index_topk counts their tokens."""
    pool, tokens = config.size("index_kpool"), config.size("index_topk")
    if tokens.value % pool.value:
        what = f"index_topk {tokens} is no multiple of index_kpool {pool}"
        raise config.error(what, at=tokens.place)
    return {
        "kind": "pools",
        "top_k": tokens.derive(tokens.value // pool.value),
        "pool": pool,
        "n_heads": config.size("index_n_heads"),
        "head_dim": config.size("index_head_dim"),
    }


def _with_networks(config: Config, layers: list[Mapped]) -> list[Mapped]:
    """The layers with their networks, all clipped; routed experts have SiLU whatever hidden_act says."""
    limit = hf.positive(config, "swiglu_limit")

    def sparse() -> Mapped:
        expert = {**hf.gated(config, width="moe_intermediate_size"), "limit": limit}
        shared = hf.shared_experts(config, expert)
        routed = {**expert, "activation": "silu"}
        return hf.experts(config, expert=routed, router=hf.corrected_router(config), shared=shared)

    routed = hf.by_types(config, lambda: [index >= DENSE_LAYERS for index in range(config.layers())])
    return hf.with_networks(layers, routed, lambda: {**hf.gated(config), "limit": limit}, sparse)


LAYER = "[model.]layers.*"
WITHIN = f"{LAYER}.self_attn"
POOLED: Weights = {
    f"{WITHIN}.indexer.index_kpool_compress_{theirs}": f"layers.*.attention.indexer.{ours}"
    for theirs, ours in (("ape", "compress.places"), ("gate", "gate_proj.weight"))
}
STREAMS: Weights = {
    f"{LAYER}.{theirs}{number}": f"layers.*.{step}_hyper{ours}"
    for number, ours in (("fn", ".weight"), ("base", "_gates.base"), ("scale", "_gates.scale"))
    for step, places in (("{}", ("attn_hc.", "hc_attn_")), ("ffn", ("ffn_hc.", "hc_ffn_")))
    for theirs in places
}
"""Hyper-connections in memory and in published files, before a mixer of either kind and before a network."""


def _of_mixer(step: str) -> Weights:
    """The norm and the streams before a mixer, which its key names."""
    return {
        f"{LAYER}.input_layernorm.weight": f"layers.*.{step}_norm.weight",
        **{theirs: str(ours).format(step) for theirs, ours in STREAMS.items() if "{}" in str(ours)},
    }


LINEAR_LAYERS: Weights = {
    **_of_mixer("mixer"),
    **kda_names(WITHIN, "q", "k", "v", "b", "o", "g_a", "g_b", decay=("f_a_proj", "f_b_proj")),
}
INDEXED_LAYERS: Weights = {
    **_of_mixer("attention"),
    **hf.MLA,
    **INDEXER,
    **POOLED,
    f"{WITHIN}.o_proj.*": "layers.*.attention.o_proj.*",
}
ELSEWHERE: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if ".self_attn." not in name and ".input_" not in name},
    **{theirs: ours for theirs, ours in STREAMS.items() if "{}" not in str(ours)},
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
}
"""Names outside of mixers."""


def _weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer, and what a layer of prediction has."""
    kinds = [kind if kind == hf.LINEAR else hf.FULL for kind in _kinds(config)]
    predicting = hf.prediction_layers(
        config.layers(), config.count("num_nextn_predict_layers", default=0).value
    )
    return {**ELSEWHERE, **predicting, **by_kind(kinds, LINEAR_LAYERS, INDEXED_LAYERS)}


FAMILIES = {
    "glm5_next_text": Family(
        "GLM-5.3's language model: Glm5NextTextConfig and Glm5NextForConditionalGeneration.",
        _glm5_next,
        _weights,
        aliases=hf.EXPERT_WORDS,
    ),
}
