"""Step 3.5."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped

HEADS = "num_attention_heads"
SYNONYMS = {
    "moe_num_experts": "n_routed_experts",
    "moe_top_k": "num_experts_per_tok",
    "num_attention_groups": "num_key_value_heads",
    "share_expert_dims": "share_expert_dim",
    "num_mtp_layers": "num_nextn_predict_layers",
}
"""Keys of published files, and the class's keys that they overrule."""

UNREAD = """
    hidden_act num_local_experts num_sliding_attention_heads attention_other_setting sliding_window
    query_pre_attn_scalar mtp_layer_types mtp_mlp_layer_types moe_layer_freq
    moe_every_n_layer norm_expert_weight use_moe use_moe_router_bias moe_router_activation
    need_fp32_gate use_qk_norm use_head_wise_attn_gate yarn_only_types sink zero_centered att_impl_type
    max_seq_len use_rope_layers
"""
FIRST_SPARSE = 3
"""The first layer with experts, where no key names any."""

STEP = {"moe.gate.weight": "router.weight", "moe.router_bias": "route.correction_bias"}
STEP_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    "[model.]layers.*.self_attn.g_proj.weight": "layers.*.attention.gate_proj.weight",
    **{f"[model.]layers.*.{theirs}": f"layers.*.ffn.{ours}" for theirs, ours in STEP.items()},
    **{
        f"[model.]layers.*.{theirs}.{name}_proj.weight": f"layers.*.ffn.{ours}.{name}_proj.weight"
        for theirs, ours in (("moe", "experts"), ("share_expert", "shared"))
        for name in ("gate", "up", "down")
    },
}


def _step(config: Config) -> Mapped:
    """Pre-norm with Gemma's norms, a gate per head, more heads in windows, and clipped experts."""
    renamed = {SYNONYMS[key]: value for key, value in config.data.items() if key in SYNONYMS}
    config = replace(config, data={**config.data, **renamed})
    config.ignore(*UNREAD.split(), *SYNONYMS)
    config.restated(scoring_func="sigmoid", n_shared_experts=1)
    hf.without_prediction(config)
    config.only("gating", True, "per-head", default=not config.stated_null("gating"))
    config.only("use_bidirectional_attention", False, default=False)
    hf.check_window(config, null=True)
    count = config.layers()
    types = hf.layer_types(config, [hf.FULL] * count)
    heads = _heads(config, types)
    attentions = {
        key: _attention(config, *key, types) for key in dict.fromkeys(zip(types, heads, strict=True))
    }
    ffns: dict[Any, Mapped] = {}
    layers: dict[Any, Mapped] = {}
    answer = []
    for index, (kind, moe) in enumerate(
        zip(types, hf.by_types(config, lambda: _routed(config)), strict=True)
    ):
        limits = (_limit(config, "swiglu_limits", index), _limit(config, "swiglu_limits_shared", index))
        if (moe, limits) not in ffns:
            ffns[moe, limits] = _sparse(config, *limits) if moe else _dense(config, limits[1])
        layer = {"kind": "pre_norm", "attention": attentions[kind, heads[index]], "ffn": ffns[moe, limits]}
        answer.append(layers.setdefault((kind, heads[index], moe, limits), layer))
    return hf.decoder(config, hf.rmsnorm(config, offset=1), answer)


def _attention(config: Config, kind: str, n_heads: int, types: list[str]) -> Mapped:
    """Attention of the layers of type `kind`, with `n_heads` query heads."""
    width, window = (
        hf.head_dim(config),
        config.optional_size("sliding_window") if kind == hf.SLIDING else None,
    )
    if kind == hf.SLIDING and window is None:
        raise config.error("layers have a window that is not stated", "state sliding_window")
    config = replace(config, data={**config.data, HEADS: n_heads})
    scaled = config.get("query_pre_attn_scalar", default=None) is not None
    return hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=hf.position(config, width, _rope(config, kind, types.index(kind)), partial=1.0),
        qk_norm=hf.PER_HEAD,
        scale=hf.query_scale(config, width) if scaled else None,
        window=window,
        output_gate={"per": "head"},
    )


def _heads(config: Config, types: list[str]) -> list[int]:
    """The number of query heads of each layer: by per_layer_config if the file has it, else by type."""
    usual = config.size(HEADS).value
    if "per_layer_config" not in config.data:
        of_window = _sliding_heads(config) if hf.SLIDING in types else usual
        return [of_window if kind == hf.SLIDING else usual for kind in types]
    entries, at = config.get("per_layer_config", default={}), config.place("per_layer_config")
    counts = [usual] * len(types)
    for key, entry in entries.items() if isinstance(entries, dict) else ((entries, None),):
        heads = entry.get(HEADS) if isinstance(entry, dict) and not entry.keys() - {HEADS} else None
        if not str(key).isdecimal() or isinstance(heads, bool) or not isinstance(heads, int) or heads < 1:
            what = f"per_layer_config {hf.short_repr(entries)} is not supported"
            raise config.error(what, f"supported: a layer's number with {HEADS}", at)
        if int(key) < len(types):
            counts[int(key)] = heads
    return counts


def _sliding_heads(config: Config) -> int:
    """The number of query heads of a layer with a window."""
    setting = config.get("attention_other_setting", default={})
    if not isinstance(setting, dict):
        what = f"attention_other_setting must be a mapping, not {hf.short_repr(setting)}"
        raise config.error(what, at=config.place("attention_other_setting"))
    default = setting.get(HEADS, config.size(HEADS).value)
    return config.size("num_sliding_attention_heads", default=default).value


def _rope(config: Config, kind: str, first: int) -> hf.Parameters:
    """The RoPE parameters of a type of layer: nested by type, or from lists with an entry a layer."""
    nested = hf.parameters(config, "rope_parameters", kind) if _is_nested(config) else {}
    if nested:
        return nested
    rope: hf.Parameters = {"rope_theta": config.value("rope_theta", default=10000.0)}
    shares = config.value("partial_rotary_factors", default=[])
    if shares:
        rope["partial_rotary_factor"] = shares
    for key, value in rope.items():
        entries = value.value
        if isinstance(entries, list):
            if len(entries) <= first or not hf.is_number(entries[first]):
                raise config.error(f"{key} has no number for layer {first}", at=value.place)
            entries = entries[first]
        rope[key] = value.derive(entries)
    return {**rope, **(hf.parameters(config, "rope_scaling") if kind == hf.FULL else {})}


def _is_nested(config: Config) -> bool:
    entry = config.get("rope_parameters", default=None)
    return isinstance(entry, dict) and {hf.FULL, hf.SLIDING} & entry.keys() != set()


def _routed(config: Config) -> list[bool]:
    """Which layers have experts: those that moe_layers_enum numbers, else all from the fourth on."""
    count, entry = config.layers(), config.get("moe_layers_enum", default=None)
    if entry is None:
        config.restated(first_k_dense_replace=FIRST_SPARSE)
        return [index >= FIRST_SPARSE for index in range(count)]
    items = entry.split(",") if isinstance(entry, str) else entry
    if not isinstance(items, list) or not all(str(item).strip().isdecimal() for item in items if str(item)):
        what = f"moe_layers_enum must be numbers of layers, not {hf.short_repr(entry)}"
        raise config.error(what, at=config.place("moe_layers_enum"))
    indices = {int(item) for item in items if str(item).strip()}
    return [index in indices for index in range(count)]


def _limit(config: Config, key: str, index: int) -> float | None:
    """The bound of a layer's gate and up branch; 0 and null mean none."""
    limits = config.per_layer(key, config.layers()) or [None] * config.layers()
    if limits[index] is not None and (not hf.is_number(limits[index]) or limits[index] < 0):
        what = f"{key} must hold numbers of at least 0, not {hf.short_repr(limits[index])}"
        raise config.error(what, at=config.place(key))
    return limits[index] or None


def _dense(config: Config, limit: float | None, width: str = "intermediate_size") -> Mapped:
    return _bounded(hf.gated(config, width=width, bias=config.flag("mlp_bias")), limit)


def _bounded(network: Mapped, limit: float | None) -> Mapped:
    return network if limit is None else {**network, "limit": limit, "limit_on": "activation"}


def _sparse(config: Config, limit: float | None, shared: float | None) -> Mapped:
    scale: ConfigValue[float] = config.number("moe_router_scaling_factor")
    return hf.experts(
        config,
        expert=_bounded(hf.gated(config, width="moe_intermediate_size"), limit),
        router={"scores": "sigmoid", "correction": True, "scale": scale},
        shared=_dense(config, shared, "share_expert_dim") if config.count("share_expert_dim") else None,
    )


FAMILIES = {
    "step3p5": Family(
        "Step 3.5 and the language model of Step 3.7: Step3p7TextConfig and Step3p7TextModel.",
        _step,
        STEP_WEIGHTS,
        aliases={"num_experts": "n_routed_experts"},
        reads_per_layer=True,
    ),
}
