"""Gemma 3n and Gemma 4: embeddings of every layer, and layers that read the keys of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights


def _kv_sources(config: Config, types: list[str]) -> list[int | None]:
    """For each layer the number of the layer whose keys and values it reads; None for its own.

    The last num_kv_shared_layers read those of the last layer of their type before them.
    """
    shared = config.count("num_kv_shared_layers")
    with_keys = types[: max(len(types) - shared.value, 0)]
    if not set(types) <= set(with_keys):
        what = f"num_kv_shared_layers {shared} leaves no layer of some type with keys of its own"
        raise config.error(what, "fewer of them", shared.place)
    last = {kind: index for index, kind in enumerate(with_keys)}
    return [None] * len(with_keys) + [last[kind] for kind in types[len(with_keys) :]]


def _per_layer_embedding(config: Config) -> Mapped:
    """The table of further vectors, one for each layer."""
    return {
        "width": config.size("hidden_size_per_layer_input"),
        "vocab_size": config.size("vocab_size_per_layer_input"),
    }


PER_LAYER: Weights = {
    "[model.]embed_tokens_per_layer.weight": "per_layer_embedding.tokens.weight",
    "[model.]per_layer_model_projection.weight": "per_layer_embedding.projection.weight",
    "[model.]per_layer_projection_norm.weight": "per_layer_embedding.norm.weight",
    "[model.]layers.*.per_layer_input_gate.weight": "layers.*.per_layer_gate.weight",
    "[model.]layers.*.per_layer_projection.weight": "layers.*.per_layer_proj.weight",
    "[model.]layers.*.post_per_layer_input_norm.weight": "layers.*.per_layer_norm.weight",
}
"""The names of per-layer embeddings and of what reads them."""

NAMES: Weights = {**hf.SANDWICH, **hf.QK_NORM, **PER_LAYER}
"""The names that Gemma 3n and Gemma 4 have in common."""


def _without_own_keys(sources: list[int | None]) -> Weights:
    """Stored names of keys and values that no pass reads: the layer borrows another layer's."""
    readers = [index for index, source in enumerate(sources) if source is not None]
    return {
        f"[model.]layers.{index}.self_attn.{name}.*": Auxiliary(hf.UNREAD)
        for index in readers
        for name in ("k_proj", "v_proj", "k_norm", "v_norm")
    }


GEMMA3N_PERIOD, SPARSE_LAYERS, SPARSITY = 5, 10, 0.95
"""By default each fifth layer is global, and the first ten of more than ten have sparse gates."""


def _gemma3n(config: Config) -> Mapped:
    """Alternating updates, learned augmented residuals, per-layer embeddings, sparse gates.

    The last layers read the keys and values of earlier ones.
    """
    config.ignore("altup_coef_clip")  # bounds weights while they are trained
    count, width, types = config.layers(), hf.head_dim(config), _gemma3n_types(config)
    hf.check_window(config)
    near, far = hf.near_and_far(config, width)
    norm, bias, block = hf.rmsnorm(config), config.flag("attention_bias"), _gemma3n_block(config)

    def layer(kind: str, source: int | None, d_ff: Any, sparsity: Any) -> Mapped:
        values = {"kv_from": source} if source is not None else {"v_norm": {**norm, "weight": False}}
        window = None if kind == hf.FULL else config.size("sliding_window")
        place = {"position": far if kind == hf.FULL else near, "window": window}
        # q and k are normalized: their gains hold the scale
        attend = hf.attention(config, width, bias=bias, qk_norm=hf.PER_HEAD, scale=1.0, **place, **values)
        ffn = {"kind": "glu", "d_ff": d_ff, "activation": block["per_layer_gate"], "sparsity": sparsity}
        return {**block, "attention": attend, "ffn": ffn}

    widths, shares = _gemma3n_widths(config, count), _gemma3n_sparsity(config, count)
    layers = [layer(*entry) for entry in zip(types, _kv_sources(config, types), widths, shares, strict=True)]
    cap = hf.optional_number(config, "final_logit_softcapping")
    return hf.decoder(
        config,
        norm,
        layers,
        embedding={"scale": "sqrt_d_model"},
        per_layer_embedding=_per_layer_embedding(config),
        head=None if cap is None else {"softcap": cap},
    )


def _gemma3n_block(config: Config) -> Mapped:
    """A layer without its attention and its network; without altup_correct_scale no pass reads the scale."""
    corrects, width = config.flag("altup_correct_scale"), config.size("hidden_size")
    return {
        "kind": "altup",
        "inputs": config.size("altup_num_inputs"),
        "active": config.count("altup_active_idx"),
        "corrects_scale": corrects,
        "laurel_rank": config.size("laurel_rank"),
        "per_layer_gate": hf.activation(config, "hidden_activation"),
        **({} if corrects else {"unread": {"altup_output_scale": width}}),
    }


def _gemma3n_types(config: Config) -> list[str]:
    return hf.layer_types(
        config, [hf.FULL if (i + 1) % GEMMA3N_PERIOD == 0 else hf.SLIDING for i in range(config.layers())]
    )


def _gemma3n_widths(config: Config, count: int) -> list[ConfigValue[int]]:
    """The width of each layer's network: a number for all, or a list."""
    widths = config.value("intermediate_size")
    if not isinstance(widths.value, list):
        return [config.size("intermediate_size")] * count
    return [
        config.as_size("intermediate_size", widths.derive(width))
        for width in _entry_per_layer(config, widths, count)
    ]


def _gemma3n_sparsity(config: Config, count: int) -> list[ConfigValue[Any]]:
    """The share of each layer's gates that is cut off."""
    default = [SPARSITY if i < SPARSE_LAYERS < count else 0.0 for i in range(count)]
    shares = config.value("activation_sparsity_pattern", default=default)
    if not isinstance(shares.value, list):
        what = f"activation_sparsity_pattern must be a list, not {hf.short_repr(shares.value)}"
        raise config.error(what, at=shares.place)
    return [shares.derive(share) for share in _entry_per_layer(config, shares, count)]


def _entry_per_layer(config: Config, entries: ConfigValue[list[Any]], count: int) -> list[Any]:
    """The entries of a list that must have one for each layer."""
    if len(entries.value) != count:
        what = f"a list of {len(entries.value)} entries for {count} layers"
        raise config.error(what, "the class needs one for each", entries.place)
    return entries.value


GEMMA3N_WEIGHTS: Weights = {
    **NAMES,
    "[model.]altup_projections.*.weight": "altup_in_*.weight",
    "[model.]altup_unembed_projections.*.weight": "altup_out_*.weight",
    "[model.]layers.*.altup.correct_output_scale": "layers.*.altup_output_scale.weight",
    "[model.]layers.*.altup.correction_coefs.weight": "layers.*.altup_correction.weight",
    "[model.]layers.*.altup.prediction_coefs.weight": "layers.*.altup_prediction.weight",
    "[model.]layers.*.altup.modality_router.weight": "layers.*.altup_router.weight",
    "[model.]layers.*.altup.router_norm.weight": "layers.*.altup_norm.weight",
    "[model.]layers.*.laurel.linear_left.weight": "layers.*.laurel_down.weight",
    "[model.]layers.*.laurel.linear_right.weight": "layers.*.laurel_up.weight",
    "[model.]layers.*.laurel.post_laurel_norm.weight": "layers.*.laurel_norm.weight",
}


def _gemma3n_weights(config: Config) -> Weights:
    """The weight names, with keys and values that are stored and not read."""
    return {**GEMMA3N_WEIGHTS, **_without_own_keys(_kv_sources(config, _gemma3n_types(config)))}


GEMMA4_DEFAULTS = {"global_head_dim": 512}
UNIFIED_DEFAULTS = {
    **GEMMA4_DEFAULTS,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": False,
}
"""What Gemma4UnifiedTextConfig has otherwise; it has neither per-layer embeddings nor experts."""
NOT_OF_UNIFIED = ("hidden_size_per_layer_input", "enable_moe_block")
Sizes = tuple[ConfigValue[int], ConfigValue[int]]
GEMMA4_PERIOD = 6
"""By default each sixth layer is global; the last is, whatever a file says."""
GEMMA4_ROPE: dict[str, dict[str, Any]] = {
    hf.SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    hf.FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
}


def _gemma4(config: Config) -> Mapped:
    """Windowed layers and global ones with heads of another width; experts beside a network.

    Small models have per-layer embeddings, and late layers that read the keys and values of earlier ones.
    """
    for key in NOT_OF_UNIFIED if config.model_type == "gemma4_unified_text" else ():
        config.only(key, 0, False, None, default=None)
    config.only("use_bidirectional_attention", None, "vision", default=None)
    config.ignore("global_head_dim", "num_global_key_value_heads")
    config.ignore("num_experts", "top_k_experts", "moe_intermediate_size")  # without enable_moe_block
    types = _gemma4_types(config)
    hf.check_window(config)
    heads = [_gemma4_heads(config, i, kind) for i, kind in enumerate(types)]
    norm, width = hf.rmsnorm(config), config.count("hidden_size_per_layer_input")
    block = _gemma4_block(config, norm, gated=bool(width))
    layers = [
        {
            **block,
            "attention": _gemma4_attention(config, kind, source, *sizes),
            "ffn": _gemma4_network(config, shared=source is not None),
        }
        for kind, source, sizes in zip(types, _kv_sources(config, types), heads, strict=True)
    ]
    cap = hf.optional_number(config, "final_logit_softcapping")
    return hf.decoder(
        config,
        norm,
        layers,
        embedding={"scale": "sqrt_d_model"},
        per_layer_embedding=_per_layer_embedding(config) if width else None,
        head=None if cap is None else {"softcap": cap},
    )


def _gemma4_types(config: Config) -> list[str]:
    count = config.layers()
    types = hf.layer_types(
        config, [hf.FULL if (i + 1) % GEMMA4_PERIOD == 0 else hf.SLIDING for i in range(count)]
    )
    return [*types[:-1], hf.FULL]


def _gemma4_heads(config: Config, index: int, kind: str) -> Sizes:
    """(head_dim, n_kv_heads) of a layer: by the layer's number, else by its type."""
    width, kv_heads = config.size("head_dim"), config.size("num_key_value_heads")
    if "per_layer_config" in config.data:
        sizes = _by_number(config).get(index, {})
        return sizes.get("head_dim", width), sizes.get("num_key_value_heads", kv_heads)
    if kind != hf.FULL:
        return width, kv_heads
    fewer = config.optional_size("num_global_key_value_heads") if config.flag("attention_k_eq_v") else None
    return config.size("global_head_dim"), kv_heads if fewer is None else fewer


def _by_number(config: Config) -> dict[int, dict[str, ConfigValue[int]]]:
    """The sizes in per_layer_config, by the number of the layer."""
    entries = config.value("per_layer_config", default={})
    layers: dict[str, Any] = entries.value if isinstance(entries.value, dict) else {"": None}
    for number, sizes in layers.items():
        numbered = isinstance(number, str) and number.isascii() and number.isdigit()
        if not numbered or not isinstance(sizes, dict) or sizes.keys() - {"head_dim", "num_key_value_heads"}:
            what = f"per_layer_config {hf.short_repr(entries.value)} is not supported"
            hint = "known: head_dim and num_key_value_heads by a layer's number"
            raise config.error(what, hint, entries.place)
    return {
        int(number): {key: config.as_size(key, entries.derive(size)) for key, size in sizes.items()}
        for number, sizes in layers.items()
    }


def _gemma4_attention(
    config: Config, kind: str, source: int | None, width: ConfigValue[int], kv_heads: ConfigValue[int]
) -> Mapped:
    values = {
        "v_norm": {**hf.rmsnorm(config), "weight": False},
        "values": "keys" if config.flag("attention_k_eq_v") and kind == hf.FULL else None,
    }
    return hf.without_none(
        {
            **hf.head_counts(config.size("num_attention_heads"), kv_heads),
            "head_dim": width,
            "bias": config.flag("attention_bias") or None,
            "position": _gemma4_position(config, width, kind),
            "window": None if kind == hf.FULL else config.size("sliding_window"),
            "qk_norm": hf.PER_HEAD,
            "scale": 1.0,
            **(values if source is None else {"kv_from": source}),
        }
    )


def _gemma4_position(config: Config, width: ConfigValue[int], kind: str) -> ConfigValue[Mapped]:
    """RoPE of a type of layers; only rope_type proportional turns a part of the head."""
    start = config.places.start
    known: hf.Parameters = {key: ConfigValue(value, start) for key, value in GEMMA4_ROPE[kind].items()}
    if config.get("rope_parameters", default=None) is not None:
        known = hf.parameters(config, "rope_parameters", kind)
    if "rope_theta" not in known:
        what = f"rope_parameters need a mapping {kind!r} with a rope_theta"
        raise config.error(what, at=config.place("rope_parameters"))
    return hf.position(config, width, known)


def _gemma4_network(config: Config, *, shared: bool) -> Mapped:
    """GeGLU, twice as wide in layers with `shared` keys and values if use_double_wide_mlp is true."""
    width = config.size("intermediate_size")
    wide = width.derive(2 * width.value) if shared and config.flag("use_double_wide_mlp") else width
    return {"kind": "glu", "d_ff": wide, "activation": hf.activation(config, "hidden_activation")}


def _gemma4_block(config: Config, norm: Mapped, *, gated: bool) -> Mapped:
    """A layer without its attention and its network."""
    function = hf.activation(config, "hidden_activation")
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


def _gemma4_experts(stored: str) -> str:
    return f"layers.*.beside.experts.{stored}.weight"


GEMMA4_WEIGHTS: Weights = {
    **NAMES,
    "[model.]layers.*.layer_scalar": "layers.*.stored_scale.scale",
    "[model.]layers.*.router.scale": "layers.*.beside.router_norm.weight",
    "[model.]layers.*.router.proj.weight": "layers.*.beside.router.weight",
    "[model.]layers.*.router.per_expert_scale": "layers.*.beside.expert_scale.scale",
    "[model.]layers.*.experts.gate_up_proj": Parts(
        (_gemma4_experts("gate_proj"), _gemma4_experts("up_proj")), axis=1
    ),
    "[model.]layers.*.experts.down_proj": _gemma4_experts("down_proj"),
    "[model.]layers.*.pre_feedforward_layernorm_2.weight": "layers.*.beside.expert_norm.weight",
    "[model.]layers.*.post_feedforward_layernorm_1.weight": "layers.*.ffn_own_norm.weight",
    "[model.]layers.*.post_feedforward_layernorm_2.weight": "layers.*.beside.out_norm.weight",
}


def _gemma4_weights(config: Config) -> Weights:
    """The weight names, with keys and values that are stored and not read."""
    return {**GEMMA4_WEIGHTS, **_without_own_keys(_kv_sources(config, _gemma4_types(config)))}


def _gemma4_family(defaults: Mapping[str, Any]) -> Family:
    about = "Gemma 4, its text part: Gemma4TextConfig and Gemma4ForCausalLM."
    return Family(about, _gemma4, _gemma4_weights, defaults=defaults, reads_per_layer=True)


FAMILIES = {
    "gemma3n_text": Family(
        "Gemma 3n, its text part: Gemma3nTextConfig and Gemma3nForCausalLM.",
        _gemma3n,
        _gemma3n_weights,
        defaults={"intermediate_size": 16384, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0},
    ),
    "gemma4_text": _gemma4_family(GEMMA4_DEFAULTS),
    "gemma4_unified_text": _gemma4_family(UNIFIED_DEFAULTS),
}
