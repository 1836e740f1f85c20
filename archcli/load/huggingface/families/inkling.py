"""Inkling."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights

ALIASES = {
    "sliding_window": "sliding_window_size",
    "num_local_experts": "n_routed_experts",
    "sconv_kernel_size": "conv_kernel_size",
    "embedding_multiplier": "logits_mup_width_multiplier",
}
UNREAD = """
    shared_expert_sink rms_norm_eps_moe_gate number_of_conv_states tie_word_embeddings
    chain_hidden_post_norm mtp_hidden_states_first mtp_local_layer_ids dense_mlp_idx local_layer_ids
"""
"""Keys that the class does not read, or only where others are left out."""

FULL, SLIDING = "hybrid", "hybrid_sliding"
"""The words of Inkling's layer_types."""
PERIOD = 6
"""By default every sixth layer has no window."""


def _inkling(config: Config) -> Mapped:
    """GQA with biases by distance, convolutions of keys, values and outputs; experts in most layers."""
    config.ignore(*UNREAD.split())
    _note_unread(config)
    mixers = {
        FULL: lambda: {"attention": _attention(config, "", None)},
        SLIDING: lambda: {"attention": _attention(config, "swa_", config.size("sliding_window"))},
    }
    layers = hf.with_networks(
        hf.hybrid_layers(_kinds(config), mixers),
        hf.by_types(config, lambda: _after_dense(config)),
        lambda: _convolved(config, hf.gated(config, width=_dense_width(config)), trained_scale=True),
        lambda: _convolved(config, _experts(config)),
    )
    norm, divisor = hf.rmsnorm(config), hf.positive(config, "embedding_multiplier")
    return hf.decoder(
        config,
        norm,
        layers,
        embedding={"tied": False, "norm": norm},
        head={"scale": divisor.derive(1 / divisor.value)},
    )


def _note_unread(config: Config) -> None:
    """Note what a checkpoint has and no pass of the class computes."""
    if config.count("num_mtp_layers", default=0):
        config.note("layers of multi-token prediction (num_mtp_layers) are not counted")
    rows = config.optional_size("unpadded_vocab_size")
    if rows is not None and rows.value < config.size("vocab_size").value:
        config.note(f"of the logits, the class drops those beyond unpadded_vocab_size {rows}")


def _kinds(config: Config) -> list[str]:
    """The kind of each layer: layer_types, else those of local_layer_ids have a window."""
    count, local = config.layers(), config.get("local_layer_ids", default=None)
    if local is None:
        local = [index for index in range(count) if (index + 1) % PERIOD]
    if not isinstance(local, list):
        what = f"local_layer_ids must be a list of whole numbers, not {hf.short_repr(local)}"
        raise config.error(what, at=config.place("local_layer_ids"))
    default = [SLIDING if index in local else FULL for index in range(count)]
    return hf.kinds_of_layers(config, default, (FULL, SLIDING))


def _after_dense(config: Config) -> list[bool]:
    """Which layers have experts: all after the first dense_mlp_idx."""
    first = config.count("dense_mlp_idx", default=0).value
    return [index >= first for index in range(config.layers())]


def _attention(config: Config, prefix: str, window: ConfigValue[int] | None) -> Mapped:
    """Attention with the keys of heads that begin with `prefix`."""
    width = config.size(f"{prefix}head_dim")
    return {
        "kind": "conv_gqa",
        "n_heads": config.size(f"{prefix}num_attention_heads"),
        "n_kv_heads": config.size(f"{prefix}num_key_value_heads"),
        "head_dim": width,
        "relative_rank": config.size("d_rel"),
        "relative_extent": config.size("rel_extent") if window is None else window,
        "conv_kernel": config.size("sconv_kernel_size"),
        "qk_norm": hf.PER_HEAD,
        # 1 / d, not 1 / sqrt(d), as in muP
        "scale": width.derive(1.0 / width.value),
        **(_temperature(config) if window is None else {"window": window}),
    }


def _temperature(config: Config) -> Mapped:
    """How queries and biases grow beyond log_scaling_n_floor tokens, in layers without a window."""
    floor = config.optional_size("log_scaling_n_floor")
    if floor is None:
        return {}
    scale = hf.positive(config, "log_scaling_alpha")
    return {"temperature": {"scale": scale, "floor_scale": floor, "grows": "log_above"}}


def _convolved(config: Config, network: Mapped, **more: bool) -> Mapped:
    return {
        "kind": "convolved",
        "network": network,
        "conv_kernel": config.size("sconv_kernel_size"),
        **more,
    }


def _dense_width(config: Config) -> str:
    """The key of the dense networks' width."""
    has_key = config.get("dense_intermediate_size", default=None) is not None
    return "dense_intermediate_size" if has_key else "intermediate_size"


def _experts_width(config: Config) -> str:
    """The key of the experts' width: intermediate_size beside a dense_intermediate_size."""
    is_free = _dense_width(config) != "intermediate_size"
    return "intermediate_size" if is_free else "moe_intermediate_size"


def _experts(config: Config) -> Mapped:
    return {
        "kind": "shared_sink_moe",
        "n_experts": config.size("num_local_experts"),
        "n_shared": config.size("n_shared_experts"),
        "top_k": config.size("num_experts_per_tok"),
        "expert": hf.gated(config, width=_experts_width(config)),
        "scale": hf.positive(config, "route_scale"),
    }


LAYER, PUBLISHED = "[model.]layers.*", "model.llm.layers.*"
ATTENTION, NETWORK = "layers.*.attention", "layers.*.ffn.network"
EXPERTS, SHARED = f"{NETWORK}.experts", f"{NETWORK}.shared"
MATRICES = ("gate", "up", "down")

IN_MEMORY: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if ".mlp." not in name},
    **hf.QK_NORM,
    "[model.]embed_tokens.embed_norm.weight": "embedding.norm.weight",
    f"{LAYER}.self_attn.r_proj.weight": f"{ATTENTION}.r_proj.weight",
    f"{LAYER}.self_attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
    f"{LAYER}.self_attn.k_sconv.conv1d.weight": f"{ATTENTION}.k_conv.weight",
    f"{LAYER}.self_attn.v_sconv.conv1d.weight": f"{ATTENTION}.v_conv.weight",
    f"{LAYER}.attn_sconv.conv1d.weight": f"{ATTENTION}.o_conv.weight",
    f"{LAYER}.mlp_sconv.conv1d.weight": "layers.*.ffn.conv.weight",
    f"{LAYER}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
    **{f"{LAYER}.mlp.{name}_proj.weight": f"{NETWORK}.{name}_proj.weight" for name in MATRICES},
    f"{LAYER}.mlp.gate.weight": f"{NETWORK}.router.weight",
    f"{LAYER}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
    f"{LAYER}.mlp.gate.e_score_correction_bias": f"{NETWORK}.route.correction_bias",
    f"{LAYER}.mlp.experts.gate_up_proj": Parts(
        (f"{EXPERTS}.gate_proj.weight", f"{EXPERTS}.up_proj.weight"), axis=1
    ),
    f"{LAYER}.mlp.experts.down_proj": f"{EXPERTS}.down_proj.weight",
    **{f"{LAYER}.mlp.shared_experts.{name}_proj": f"{SHARED}.{name}_proj.weight" for name in MATRICES},
}


def _published(dense: int, of_experts: int) -> Weights:
    """The names of published files: rows of gate and up by turns, in networks of these widths."""
    return {
        "model.llm.embed.weight": "embedding.tokens.weight",
        "model.llm.embed_norm.weight": "embedding.norm.weight",
        "model.llm.norm.weight": "final_norm.weight",
        "model.llm.unembed.weight": "lm_head.weight",
        "model.mtp.**": Auxiliary(hf.PREDICTION),
        f"{PUBLISHED}.attn_norm.weight": "layers.*.attention_norm.weight",
        f"{PUBLISHED}.mlp_norm.weight": "layers.*.ffn_norm.weight",
        **{f"{PUBLISHED}.attn.{name}_norm.weight": f"{ATTENTION}.{name}_norm.weight" for name in "qk"},
        **{
            f"{PUBLISHED}.attn.{theirs}.weight": f"{ATTENTION}.{theirs[1]}_proj.weight"
            for theirs in ("wq_du", "wk_dv", "wv_dv", "wr_du", "wo_ud")
        },
        f"{PUBLISHED}.attn.rel_logits_proj.proj": f"{ATTENTION}.profiles.weight",
        **{f"{PUBLISHED}.attn.{name}_sconv.weight": f"{ATTENTION}.{name}_conv.weight" for name in "kv"},
        f"{PUBLISHED}.attn_sconv.weight": f"{ATTENTION}.o_conv.weight",
        f"{PUBLISHED}.mlp_sconv.weight": "layers.*.ffn.conv.weight",
        f"{PUBLISHED}.mlp.global_scale": "layers.*.ffn.trained_scale.scale",
        f"{PUBLISHED}.mlp.w13_dn.weight": _by_turns(NETWORK, 0, dense),
        f"{PUBLISHED}.mlp.w2_md.weight": f"{NETWORK}.down_proj.weight",
        f"{PUBLISHED}.mlp.gate.weight": f"{NETWORK}.router.weight",
        f"{PUBLISHED}.mlp.gate.global_scale": f"{NETWORK}.route.scale",
        f"{PUBLISHED}.mlp.gate.bias": f"{NETWORK}.route.correction_bias",
        f"{PUBLISHED}.mlp.experts.w13_weight": _by_turns(EXPERTS, 1, of_experts),
        f"{PUBLISHED}.mlp.experts.w2_weight": f"{EXPERTS}.down_proj.weight",
        f"{PUBLISHED}.mlp.shared_experts.shared_w13_weight": _by_turns(SHARED, 1, of_experts),
        f"{PUBLISHED}.mlp.shared_experts.shared_w2_weight": f"{SHARED}.down_proj.weight",
    }


def _by_turns(ours: str, axis: int, width: int) -> Parts:
    """Gate and up [width, D] in one matrix, row by row."""
    return Parts((f"{ours}.gate_proj.weight", f"{ours}.up_proj.weight"), axis=axis, groups=width)


def _inkling_weights(config: Config) -> Weights:
    """Weight names in memory and in published files, which interleave gate and up and have towers."""
    if config.architecture.endswith("ForCausalLM"):
        return IN_MEMORY
    dense, of_experts = (config.size(key).value for key in (_dense_width(config), _experts_width(config)))
    return {**IN_MEMORY, **_published(dense, of_experts)}


FAMILIES = {
    "inkling_text": Family(
        "Thinking Machines' Inkling: InklingTextConfig and InklingForCausalLM.",
        _inkling,
        _inkling_weights,
        aliases=ALIASES,
    ),
}
