"""dots.llm1 and dots3 note."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.deepseek_like import INDEXED, INDEXER, index
from archcli.load.huggingface.whole.llama_like import llama_like


def _dots1(config: Config) -> Mapped:
    """As Qwen 3 with DeepSeek-V3's experts after the first layers; windows from max_window_layers on."""
    hf.check_window(config, null=True)
    config.ignore("scoring_func", "topk_method", "moe_layer_freq")
    return llama_like(
        config,
        heads={"qk_norm": hf.PER_HEAD},
        networks=hf.some_routed(config, hf.after_first(config), lambda: hf.deepseek_experts(config)),
        slides=lambda index: index >= config.count("max_window_layers").value,
    )


DOTS3_NOTE_DEFAULTS = {"rope_theta": 80000000.0}
SLIDING_DEFAULTS = {
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
"""Defaults of layers with a window, under keys that begin with swa_."""

OF_TYPES = {*SLIDING_DEFAULTS, "qk_rope_head_dim"}
"""Keys that may differ from type to type of layer."""
# defaults of the class: of layer_types, sliding_window and the base of RoPE in layers with a window
PERIOD, WINDOW, WINDOW_THETA = 4, 512, 50000.0
DOTS3_NOTE_WEIGHTS = {
    **hf.LLAMA,
    **hf.MLA,
    **INDEXER,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    "[model.]layers.*.self_attn.k_rope_only_layernorm.weight": "layers.*.attention.k_pe_norm.weight",
    "[model.]layers.*.self_attn.g_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]mtp.**": Auxiliary(hf.PREDICTION),
}


def _dots3_note(config: Config) -> Mapped:
    """Gated latent attention, with an indexer in some layers and a window and other ranks in the rest."""
    config.ignore("mlp_bias", "sliding_window", "sliding_window_size")
    config.only("scoring_func", "sigmoid", default="sigmoid")
    config.only("topk_method", "noaux_tc", default="noaux_tc")
    hf.without_prediction(config)
    types, norm = _dots3_note_types(config), hf.rmsnorm(config)
    layers = {kind: _dots3_note_layer(config, types, kind) for kind in dict.fromkeys(types)}
    routed = hf.by_types(config, lambda: _dots3_note_routed(config))
    networks = hf.some_routed(config, routed, lambda: _dots3_note_experts(config))
    return hf.decoder(config, norm, networks([layers[kind] for kind in types]))


def _dots3_note_weights(config: Config) -> Weights:
    """Weight names, with those of the prediction layers."""
    predicted = config.count("num_nextn_predict_layers", default=0).value
    return {**DOTS3_NOTE_WEIGHTS, **hf.prediction_layers(config.layers(), predicted)}


def _dots3_note_types(config: Config) -> list[str]:
    """The type of each layer; in older files full_attention means an index, unless use_dsa is false."""
    usual = None if "per_layer_config" in config.data else True
    indexed, windowed = config.get("use_dsa", default=usual), config.flag("use_sliding_window", default=True)
    count = config.layers()
    is_global = [layer < 2 or layer % PERIOD == 1 or not windowed for layer in range(count)]  # noqa: PLR2004
    whole = hf.FULL if indexed is False else INDEXED
    default = [whole if sees_all else hf.SLIDING for sees_all in is_global]
    types = config.per_layer("layer_types", count) or default
    unknown = [kind for kind in types if kind not in (hf.FULL, hf.SLIDING, INDEXED)]
    if unknown:
        what = f"layer_types {hf.short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {INDEXED}, {hf.FULL}, {hf.SLIDING}", config.place("layer_types"))
    return types if indexed is None else [kind if kind == hf.SLIDING else whole for kind in types]


def _dots3_note_layer(config: Config, types: list[str], kind: str) -> Mapped:
    """A layer of a type, without its feed-forward part."""
    sizes = _by_number(config, types, kind) if "per_layer_config" in config.data else _of_type(config, kind)
    config = replace(config, data={**config.data, **sizes})
    if config.stated_null("q_lora_rank"):
        raise config.error("q_lora_rank null is not supported", "state a rank", config.place("q_lora_rank"))
    attention = hf.latent_attention(config, "interleaved", _dots3_note_position(config, types, kind))
    norm, width = hf.rmsnorm(config), config.size("hidden_size").value
    for which in ("q", "kv"):
        rank = config.size(f"{which}_lora_rank")
        attention[f"{which}_multiplier"] = rank.derive((width / rank.value) ** 0.5)
    attention |= {"latent_norm": norm, "k_pe_norm": norm, "output_gate": {"per": "head"}}
    if kind == hf.SLIDING:
        attention["window"] = config.size("sliding_window", "sliding_window_size", default=WINDOW)
    elif kind == INDEXED:
        attention["index"] = index(config)
    return {"kind": "pre_norm", "attention": attention}


def _of_type(config: Config, kind: str) -> dict[str, Any]:
    """The sizes of layers of a type: for windows those of the keys that begin with swa_."""
    named = {key: config.size(f"swa_{key}", default=usual) for key, usual in SLIDING_DEFAULTS.items()}
    rest = named["head_dim"].value - named["qk_nope_head_dim"].value
    named["qk_rope_head_dim"] = config.size("swa_qk_rope_head_dim", default=rest)
    null = [key for key in OF_TYPES if config.stated_null(f"swa_{key}")]
    if null:
        raise config.error(f"swa_{null[0]} null is not supported", at=config.place(f"swa_{null[0]}"))
    return {key: size.value for key, size in named.items()} if kind == hf.SLIDING else {}


def _by_number(config: Config, types: list[str], kind: str) -> dict[str, Any]:
    """The sizes of layers of a type by per_layer_config; ArchError where they differ."""
    config.ignore(*(f"swa_{key}" for key in OF_TYPES))
    entry = config.value("per_layer_config", default={})
    entries: dict[str, Any] = entry.value if isinstance(entry.value, dict) else {"": None}
    for number, sizes in entries.items():
        numbered = isinstance(number, str) and number.isascii() and number.isdigit()
        if not numbered or not isinstance(sizes, dict) or sizes.keys() - OF_TYPES:
            what = f"per_layer_config {hf.short_repr(entry.value)} is not supported"
            hint = f"known, by a layer's number: {', '.join(sorted(OF_TYPES))}"
            raise config.error(what, hint, entry.place)
    by_layer: dict[int, dict[str, Any]] = {int(number): sizes for number, sizes in entries.items()}
    of_type = [by_layer.get(layer, {}) for layer, theirs in enumerate(types) if theirs == kind]
    if any(sizes != of_type[0] for sizes in of_type):
        what = f"per_layer_config with {kind} layers that differ is not supported"
        raise config.error(what, at=entry.place)
    return dict(of_type[0])


def _dots3_note_position(config: Config, types: list[str], kind: str) -> ConfigValue[Mapped]:
    """RoPE of the layers of a type; the class turns qk_rope_head_dim as a share of head_dim."""
    turned, width = config.size("qk_rope_head_dim"), config.size("head_dim")
    if int(width.value * (turned.value / width.value)) != turned.value:
        what = f"head_dim {width} does not leave qk_rope_head_dim {turned} whole as a share of it"
        raise config.error(what, at=config.place("head_dim"))
    whole: hf.Parameters = {"partial_rotary_factor": turned.derive(1.0)}
    return hf.position(
        config,
        turned,
        {**_dots3_note_rope(config, types, kind), **whole},
        theta=DOTS3_NOTE_DEFAULTS["rope_theta"],
        pairing="interleaved",
        partial=1.0,
    )


def _dots3_note_rope(config: Config, types: list[str], kind: str) -> hf.Parameters:
    """The rope parameters of a type: nested by type, or one mapping for all."""
    config.ignore("rope_parameters", "swa_rope_theta")
    key = "rope_scaling" if config.get("rope_scaling", default=None) else "rope_parameters"
    if config.get(key, default=None) is None:
        windowed: hf.Parameters = {"rope_theta": config.value("swa_rope_theta", default=WINDOW_THETA)}
        return windowed if kind == hf.SLIDING else {}
    known = hf.parameters(config, key)
    if known.keys() & {*types} and kind not in known:
        what = f"{key} need a mapping {kind!r}"
        raise config.error(what, at=config.place(key))
    return hf.parameters(config, key, kind) if kind in known else known


def _dots3_note_routed(config: Config) -> list[bool]:
    """Which layers have experts: from first_k_dense_replace on, each that moe_layer_freq chooses."""
    count, first = config.layers(), config.count("first_k_dense_replace", default=1).value
    if isinstance(config.get("moe_layer_freq", default=1), list):
        chosen = [bool(entry) for entry in config.per_layer("moe_layer_freq", count) or []]
    else:
        step = config.size("moe_layer_freq", default=1).value
        chosen = [layer % step == 0 for layer in range(count)]
    return [layer >= first and chosen[layer] for layer in range(count)]


def _dots3_note_experts(config: Config) -> Mapped:
    """DeepSeek-V3's mixture; shared experts have a width of their own, and are one network."""
    key = "shared_experts_intermediate_size"
    width = config.size("moe_shared_expert_intermediate_size", default=config.size(key))
    together = width.derive(config.size("n_shared_experts").value * width.value)
    expert = hf.gated(config, width="moe_intermediate_size")
    shared = {**expert, "d_ff": together}
    return hf.experts(config, expert=expert, router=hf.corrected_router(config), shared=shared)


FAMILIES = {
    "dots1": Family(
        "dots.llm1: Dots1Config and Dots1ForCausalLM.",
        _dots1,
        {**hf.LLAMA, **hf.QK_NORM, **hf.EXPERTS, **hf.SHARED, **hf.CORRECTED},
        aliases=hf.EXPERT_WORDS,
    ),
    "dots3_note_text": Family(
        "The language model of dots3 note: Dots3NoteTextConfig and Dots3NoteForCausalLM.",
        _dots3_note,
        _dots3_note_weights,
        aliases=hf.EXPERT_WORDS,
        defaults=DOTS3_NOTE_DEFAULTS,
        reads_per_layer=True,
    ),
}
