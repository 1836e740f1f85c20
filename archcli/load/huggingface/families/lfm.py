"""Liquid's LFM 2 and 3: short convolutions, and attention in some layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.weights.hybrid import by_kinds

LFM_KINDS = (hf.FULL, hf.CONVOLUTION)
"""What `layer_types` may say."""


def _short_convolution(config: Config) -> Mapped:
    """The short convolution; conv_bias biases its projections as well."""
    biased = config.flag("conv_bias")
    biases = {"bias": biased, "conv_bias": biased} if biased else {}
    return {"kind": "short_conv", "conv_kernel": config.size("conv_L_cache"), **biases}


def _tied(config: Config) -> ConfigValue[bool]:
    """Whether the head is tied; `tie_embedding` of older files overrules tie_word_embeddings."""
    config.ignore("tie_embedding", "tie_word_embeddings")
    return config.flag("tie_embedding" if "tie_embedding" in config.data else "tie_word_embeddings")


def _lfm_like(config: Config, kinds: Sequence[str], ffns: Sequence[Mapped]) -> Mapped:
    """Pre-norm layers of these kinds with these feed-forward parts; queries and keys normalized by head."""
    # one object for equal layers: `groups` writes each object out
    blocks: dict[tuple[str, int], Mapped] = {}
    layers: list[Mapped] = []
    for kind, ffn in zip(kinds, ffns, strict=True):
        if (kind, id(ffn)) not in blocks:
            blocks[kind, id(ffn)] = {"kind": "pre_norm", **_mixing(config, kind), "ffn": ffn}
        layers.append(blocks[kind, id(ffn)])
    norm = {"kind": "rmsnorm", "eps": config.number("norm_eps")}
    return hf.decoder(config, norm, layers, embedding={"tied": _tied(config)})


def _mixing(config: Config, kind: str) -> Mapped:
    if kind == hf.CONVOLUTION:
        return {"mixer": _short_convolution(config)}
    return {"attention": hf.attention(config, hf.head_dim(config), qk_norm=hf.PER_HEAD)}


LAYER = "[model.]layers.*"
OURS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
DENSE: Weights = {
    f"{LAYER}.feed_forward.{theirs}.*": f"layers.*.ffn.{ours}.*" for theirs, ours in OURS.items()
}
EVERYWHERE: Weights = {
    **{name: hf.LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    "[model.]embedding_norm.weight": "final_norm.weight",
    f"{LAYER}.ffn_norm.weight": "layers.*.ffn_norm.weight",
    **{f"{LAYER}.self_attn.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkv"},
    f"{LAYER}.self_attn.out_proj.*": "layers.*.attention.o_proj.*",
    **{f"{LAYER}.self_attn.{name}_layernorm.*": f"layers.*.attention.{name}_norm.*" for name in "qk"},
    **{f"{LAYER}.conv.{name}.*": f"layers.*.mixer.{name}.*" for name in ("conv", "in_proj", "out_proj")},
    **DENSE,
}


def _lfm_weights(kinds: Sequence[str]) -> Weights:
    """Weight names; a layer's first norm is called by the key of its mixer."""
    names: dict[str, Weights] = {
        kind: {f"{LAYER}.operator_norm.weight": f"layers.*.{step}_norm.weight"}
        for kind, step in ((hf.CONVOLUTION, "mixer"), (hf.FULL, "attention"))
    }
    return {**EVERYWHERE, **by_kinds(kinds, names)}


LFM2_UNREAD = """
    block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu block_use_xavier_init
    conv_dim conv_dim_out conv_use_xavier_init use_pos_enc num_heads theta hidden_act
"""
"""Keys of published files that the class does not read."""


def _lfm2(config: Config) -> Mapped:
    """Layers of short convolutions and of attention, all with SwiGLU of an adjusted width."""
    config.ignore(*LFM2_UNREAD.split())
    ffn, kinds = {"kind": "glu", "d_ff": _lfm2_width(config)}, _lfm2_kinds(config)
    return _lfm_like(config, kinds, [ffn] * len(kinds))


def _lfm2_kinds(config: Config) -> list[str]:
    """The kind of each layer: `layer_types`, or attention in those that full_attn_idxs names, else all."""
    indices = config.get("full_attn_idxs", default=list(range(config.layers())))
    if not isinstance(indices, list):
        what = f"full_attn_idxs must be a list of whole numbers, not {hf.short_repr(indices)}"
        raise config.error(what, at=config.place("full_attn_idxs"))
    default = [hf.FULL if index in indices else hf.CONVOLUTION for index in range(config.layers())]
    return hf.kinds_of_layers(config, default, LFM_KINDS)


def _lfm2_width(config: Config) -> ConfigValue[int]:
    """The network's width: two thirds of block_ff_dim, times a factor, rounded up to a multiple."""
    full = config.size("block_ff_dim", default=config.size("intermediate_size"))
    if not config.flag("block_auto_adjust_ff_dim"):
        return full
    width = int(2 * full.value / 3)
    if not config.stated_null("block_ffn_dim_multiplier"):
        multiple = config.size("block_multiple_of").value
        width = int(config.number("block_ffn_dim_multiplier").value * width)
        width = multiple * -(-width // multiple)
    return full.derive(width)


def _lfm2_weights(config: Config) -> Weights:
    """The names of layers of either kind."""
    return _lfm_weights(_lfm2_kinds(config))


def _lfm2_moe(config: Config) -> Mapped:
    """Short convolutions and layers of attention; after the first, experts chosen by sigmoid scores."""
    dense, routed = {"kind": "glu", "d_ff": config.size("intermediate_size")}, _lfm2_moe_experts(config)
    if config.get("layer_types", default=None) is None:
        raise config.error("key 'layer_types' is missing", "the class of this model has no default for it")
    first, kinds = config.count("num_dense_layers").value, _lfm2_moe_kinds(config)
    return _lfm_like(config, kinds, [routed if index >= first else dense for index in range(len(kinds))])


def _lfm2_moe_kinds(config: Config) -> list[str]:
    """The kind of each layer."""
    return hf.kinds_of_layers(config, [hf.FULL] * config.layers(), LFM_KINDS)


def _lfm2_moe_experts(config: Config) -> Mapped:
    router = {
        "scores": "sigmoid",
        "normalized": config.flag("norm_topk_prob"),
        "scale": config.number("routed_scaling_factor"),
        "correction": config.flag("use_expert_bias"),
    }
    expert = {"kind": "glu", "d_ff": config.size("moe_intermediate_size")}
    return hf.experts(config, expert=expert, router=router)


ROUTED: Weights = {
    f"{LAYER}.feed_forward.gate.weight": "layers.*.ffn.router.weight",
    f"{LAYER}.feed_forward.expert_bias": "layers.*.ffn.route.correction_bias",
    **{
        f"{LAYER}.feed_forward.experts.#.{theirs}.weight": f"layers.*.ffn.experts.{ours}.weight"
        for theirs, ours in OURS.items()
    },
    f"{LAYER}.feed_forward.experts.gate_up_proj": Parts(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"), axis=1
    ),
    f"{LAYER}.feed_forward.experts.down_proj": "layers.*.ffn.experts.down_proj.weight",
}


def _lfm2_moe_weights(config: Config) -> Weights:
    """The names of layers of either kind, some with experts."""
    return {**_lfm_weights(_lfm2_moe_kinds(config)), **ROUTED}


LFM3_ROPE: dict[str, dict[str, Any]] = {
    hf.SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    hf.FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000000.0},
}
LFM3_PERIOD, GLOBAL = 4, 2
"""By default layers 2, 6, 10, … are global, and layers 4, 8, 12, … have a window."""


def _lfm3(config: Config) -> Mapped:
    """Short convolutions, and attention with a window or without, gated by head; sandwich norms."""
    hf.check_window(config)
    config.ignore("rope_parameters")  # read where a layer has attention
    mixers = {
        hf.CONVOLUTION: lambda: {"mixer": _short_convolution(config)},
        hf.SLIDING: lambda: {"attention": _lfm3_attention(config, hf.SLIDING, config.size("sliding_window"))},
        hf.FULL: lambda: {"attention": _lfm3_attention(config, hf.FULL, None)},
    }
    kind = "sandwich" if config.flag("use_sandwich_norm") else "pre_norm"
    ffn = {"kind": "glu", "d_ff": config.size("intermediate_size")}
    layers = hf.hybrid_layers(_lfm3_kinds(config), mixers, ffn=ffn, kind=kind)
    return hf.decoder(config, {"kind": "rmsnorm", "eps": config.number("norm_eps")}, layers)


def _lfm3_kinds(config: Config) -> list[str]:
    """The kind of each layer."""
    count = config.layers()
    kinds = {0: hf.SLIDING, GLOBAL: hf.FULL}
    default = [
        kinds.get(index % LFM3_PERIOD, hf.CONVOLUTION) if index else hf.CONVOLUTION for index in range(count)
    ]
    return hf.kinds_of_layers(config, default, (hf.FULL, hf.SLIDING, hf.CONVOLUTION))


def _lfm3_attention(config: Config, kind: str, window: ConfigValue[int] | None) -> Mapped:
    width = config.size("head_dim")
    return hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=_lfm3_position(config, kind, width),
        qk_norm=hf.PER_HEAD,
        window=window,
        output_gate={"per": "head"} if config.flag("use_attention_gate") else None,
    )


def _lfm3_position(config: Config, kind: str, width: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE of the layers of a kind, by what rope_parameters nests under it."""
    known: hf.Parameters = {
        key: ConfigValue(value, config.places.start) for key, value in LFM3_ROPE[kind].items()
    }
    if config.get("rope_parameters", default=None) is not None:
        known = hf.parameters(config, "rope_parameters", kind)
    if "rope_theta" not in known:
        what = f"rope_parameters need a mapping {kind!r} with a rope_theta"
        raise config.error(what, at=config.place("rope_parameters"))
    return hf.position(config, width, known)


LFM3_NORMS = {"operator_norm": "norm", "post_operator_norm": "post_norm"}


def _lfm3_weights(config: Config) -> Weights:
    """Weight names; a layer's norms around its mixer are called by the mixer's key."""
    kinds = _lfm3_kinds(config)
    names = {
        kind: {
            f"{LAYER}.{theirs}.weight": f"layers.*.{step}_{ours}.weight"
            for theirs, ours in LFM3_NORMS.items()
        }
        for kind, step in ((hf.CONVOLUTION, "mixer"), (hf.FULL, "attention"), (hf.SLIDING, "attention"))
    }
    prefix = f"{LAYER}.self_attn"
    of_attention = {
        **{f"{prefix}.{name}_norm.weight": f"layers.*.attention.{name}_norm.weight" for name in "qk"},
        f"{prefix}.o_proj.*": "layers.*.attention.o_proj.*",
    }
    return {
        **hf.renamed(EVERYWHERE, of_attention),
        **{
            f"{prefix}.{name}.weight": "layers.*.attention.gate_proj.weight"
            for name in ("g_proj", "gate_proj")
        },
        f"{LAYER}.post_ffn_norm.weight": "layers.*.ffn_post_norm.weight",
        **by_kinds(kinds, names),
    }


FAMILIES = {
    "lfm2": Family("Liquid's LFM2: Lfm2Config and Lfm2ForCausalLM.", _lfm2, _lfm2_weights),
    "lfm2_moe": Family(
        "Liquid's LFM2 with experts: Lfm2MoeConfig and Lfm2MoeForCausalLM.", _lfm2_moe, _lfm2_moe_weights
    ),
    "lfm3": Family(
        "Liquid's LFM3: Lfm3Config and Lfm3ForCausalLM.",
        _lfm3,
        _lfm3_weights,
        aliases={"rms_norm_eps": "norm_eps"},
    ),
}
