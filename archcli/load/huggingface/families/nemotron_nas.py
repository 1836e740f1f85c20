"""Decoders whose layers differ in heads and widths: DeciLM, Llama-Nemotron, OpenELM."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights

DECI_HEADS = "num_key_value_heads_per_layer"


def _deci(config: Config) -> Mapped:
    """As Llama, each layer with its own number of key heads."""
    config.ignore("num_key_value_heads")
    counts = config.per_layer(DECI_HEADS, config.layers())
    if counts is None:
        raise config.error(f"key {DECI_HEADS!r} is missing", "it has an entry for each layer")
    ffn, width, bias = hf.gated(config), hf.head_dim(config), config.flag("attention_bias")

    def layer(count: object) -> Mapped:
        of_layer = replace(config, data={**config.data, "num_key_value_heads": count})
        return {"kind": "pre_norm", "attention": hf.attention(of_layer, width, bias=bias), "ffn": ffn}

    return hf.decoder(config, hf.rmsnorm(config), [layer(count) for count in counts])


MULTIPLE = 256
"""The width of a network by ffn_mult is rounded up to a multiple of it."""
SWITCHES = ("replace_with_linear", "sparsify")
NONE = (None, False)
"""Values of a switch that is off."""


def _nemotron_nas(config: Config) -> Mapped:
    """As Llama, each layer with heads and a network of its own, or without one of them.

    arXiv:2411.19146: `block_configs` says which.
    """
    config.ignore("intermediate_size", "num_key_value_heads", "block_return_only_hidden_states")
    config.only("position_embedding_type", "rope", default="rope")
    blocks = config.per_layer("block_configs", config.layers())
    if blocks is None:
        raise config.error("key 'block_configs' is missing", "it has an entry for each layer")
    layers = [layer for layer in (_nemotron_nas_layer(config, block) for block in blocks) if len(layer) > 1]
    if len(layers) < len(blocks):
        config.note("layers without attention and network are passed over: later ones have lower numbers")
    if not layers:
        raise config.error("no layer has attention or a network", at=config.place("block_configs"))
    return hf.decoder(config, hf.rmsnorm(config), layers)


def _nemotron_nas_layer(config: Config, block: object) -> Mapped:
    if not isinstance(block, dict):
        what = f"block_configs has an entry that is no mapping: {hf.short_repr(block)}"
        raise config.error(what, at=config.place("block_configs"))
    entry = Config(block, config.places, notes=config.notes)
    return {
        "kind": "pre_norm",
        **_nemotron_nas_attention(config, entry.inner("attention", {})),
        **_nemotron_nas_network(config, entry.inner("ffn", {})),
    }


def _nemotron_nas_attention(config: Config, entry: Config) -> Mapped:
    """The attention of a block's entry; nothing for no_op."""
    if entry.flag("no_op", default=False):
        return {}
    for key in (*SWITCHES, "num_sink_tokens", "unshifted_sink", "llama4", "mamba"):
        entry.only(key, *NONE, default=None)
    heads, group = config.size("num_attention_heads"), entry.size("n_heads_in_group")
    kv_heads = heads.value // group.value
    if kv_heads * group.value != heads.value:
        raise config.error(f"{heads} heads are no multiple of n_heads_in_group {group}", at=heads.place)
    of_layer = replace(config, data={**config.data, "num_key_value_heads": kv_heads})
    window = entry.optional_size("window_length")
    bias = config.flag("attention_bias")
    return {"attention": hf.attention(of_layer, hf.head_dim(config), bias=bias, window=window)}


def _nemotron_nas_network(config: Config, entry: Config) -> Mapped:
    """A network of `intermediate_size`, or of two thirds of ffn_mult widths, rounded up."""
    if entry.flag("no_op", default=False):
        return {}
    for key in (*SWITCHES, "moe"):
        entry.only(key, *NONE, default=None)
    width = config.size("hidden_size")
    exact = entry.optional_size("intermediate_size")
    d_ff = int(2 * entry.number("ffn_mult").value * width.value / 3) if exact is None else exact.value
    rounded = -(-d_ff // MULTIPLE) * MULTIPLE if exact is None else d_ff
    of_layer = replace(config, data={**config.data, "intermediate_size": rounded})
    return {"ffn": hf.gated(of_layer, bias=config.flag("mlp_bias"))}


OPENELM_DEFAULTS = {
    "vocab_size": 32000,
    "model_dim": 2048,
    "num_transformer_layers": 12,
    "max_context_length": 2048,
    "head_dim": 128,
    "activation_fn_name": "swish",
    "ffn_dim_divisor": 256,
    "rope_freq_constant": 10000,
    "share_input_output_layers": False,
}
OPENELM_ALIASES = {
    "hidden_size": "model_dim",
    "num_hidden_layers": "num_transformer_layers",
    "max_position_embeddings": "max_context_length",
    "tie_word_embeddings": "share_input_output_layers",
}
OPENELM_UNREAD = ("num_gqa_groups", "qkv_multipliers", "rope_max_length")
"""Keys from which `num_query_heads` and `num_kv_heads` were computed."""


def _openelm(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU; heads and widths grow with depth (arXiv:2404.14619)."""
    config.ignore(*OPENELM_UNREAD)
    config.only("ffn_with_glu", True, default=True)
    config.only("normalization_layer_name", "rms_norm", default="rms_norm")
    queries, keys, widths = (
        _entries(config, name) for name in ("num_query_heads", "num_kv_heads", "ffn_multipliers")
    )
    layers = [
        {
            "kind": "pre_norm",
            "attention": _openelm_attention(config, heads, kv_heads),
            "ffn": _openelm_network(config, times),
        }
        for heads, kv_heads, times in zip(queries, keys, widths, strict=True)
    ]
    return hf.decoder(config, {"kind": "rmsnorm", "eps": 1e-6}, layers)


def _entries(config: Config, name: str) -> list[ConfigValue[float]]:
    """A positive number for each layer."""
    entries, place = config.per_layer(name, config.layers()), config.place(name)
    if entries is None or not all(hf.is_number(entry) and entry > 0 for entry in entries):
        raise config.error(f"{name} must have a number above 0 for each layer", at=place)
    return [ConfigValue(entry, place) for entry in entries]


def _openelm_attention(config: Config, heads: ConfigValue[float], kv_heads: ConfigValue[float]) -> Mapped:
    width, base = config.size("head_dim"), {"rope_theta": config.number("rope_freq_constant")}
    normalized = config.flag("normalize_qk_projections", default=False)
    even = width.value * heads.value == config.size("hidden_size").value
    return hf.without_none(
        {
            **hf.head_counts(heads.derive(int(heads.value)), kv_heads.derive(int(kv_heads.value))),
            "head_dim": None if even else width,
            "position": hf.position(config, width, base),
            "qk_norm": hf.PER_HEAD if normalized else None,
        }
    )


def _openelm_network(config: Config, times: ConfigValue[float]) -> Mapped:
    """A network of `times` the width, rounded to a multiple, by no more than a tenth down."""
    exact, multiple = times.value * config.size("hidden_size").value, config.size("ffn_dim_divisor").value
    rounded = max(multiple, int(exact + multiple / 2) // multiple * multiple)
    # make_divisible of OpenELM's modeling_openelm.py
    d_ff = rounded + multiple if rounded < 0.9 * exact else rounded
    return {
        "kind": "glu",
        "d_ff": times.derive(d_ff),
        "activation": hf.activation(config, "activation_fn_name"),
    }


OPENELM_WEIGHTS: Weights = {
    "[transformer.]token_embeddings.weight": "embedding.tokens.weight",
    "[transformer.]layers.*.attn_norm.weight": "layers.*.attention_norm.weight",
    "[transformer.]layers.*.attn.qkv_proj.*": Parts(hf.FUSED),
    "[transformer.]layers.*.attn.q_norm.weight": "layers.*.attention.q_norm.weight",
    "[transformer.]layers.*.attn.k_norm.weight": "layers.*.attention.k_norm.weight",
    "[transformer.]layers.*.attn.out_proj.weight": "layers.*.attention.o_proj.weight",
    "[transformer.]layers.*.ffn_norm.weight": "layers.*.ffn_norm.weight",
    "[transformer.]layers.*.ffn.proj_1.weight": hf.GATE_UP,
    "[transformer.]layers.*.ffn.proj_2.weight": "layers.*.ffn.down_proj.weight",
    "[transformer.]norm.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


FAMILIES = {
    "deci": Family(
        "DeciLM 6B and 7B, whose class is in their repositories: DeciLMConfig.",
        _deci,
        hf.LLAMA,
        defaults={"mlp_bias": None},
        defaults_of="llama",
    ),
    "nemotron-nas": Family(
        "Llama-Nemotron 49B and 253B, whose class is in their repositories: DeciLMConfig.",
        _nemotron_nas,
        hf.LLAMA,
        defaults={"intermediate_size": None},
        defaults_of="llama",
    ),
    "openelm": Family(
        "OpenELM, whose class is in its repositories: OpenELMConfig.",
        _openelm,
        OPENELM_WEIGHTS,
        aliases=OPENELM_ALIASES,
        defaults=OPENELM_DEFAULTS,
    ),
}
