"""Muse Glimmer and Muse Spark."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights

PERIOD = 4
"""Every fourth layer is global, counted from the last one back."""

OF_EXPERTS = (
    "moe_hidden_size",
    "moe_intermediate_size",
    "num_experts",
    "num_experts_per_tok",
    "routed_scaling_factor",
)


def _muse_glimmer(config: Config) -> Mapped:
    """Sandwich norms, gated attention with normalized queries and keys, every fourth layer global."""
    config.ignore("hidden_act")
    norm = hf.rmsnorm(config, offset=1)
    ffn = hf.gated(config, act="hidden_activation")
    block = {"ffn": ffn, "norm": norm, "post_norm": {**norm, "eps": config.number("post_norm_eps")}}
    return _muse(config, _layers(config, lambda attend: {"kind": "sandwich", "attention": attend, **block}))


def _muse_spark(config: Config) -> Mapped:
    """As Muse Glimmer with trained shares of the stream, and experts of a smaller width in most layers."""
    # a file states widths of both networks, whichever its layers have
    config.ignore("intermediate_size", *OF_EXPERTS)
    eps, bare = config.number("post_norm_eps"), {**hf.rmsnorm(config), "weight": False}
    block = {
        "kind": "sandwich",
        "norm": hf.rmsnorm(config, offset=1),
        "post_norm": {**bare, "eps": eps},
        "ffn_post_norm": {"kind": "prescaled_rmsnorm", "eps": eps},
        "residual_gate": hf.positive(config, "residual_gate_temperature"),
    }
    layers = _layers(config, lambda attend: {**block, "attention": {**attend, "head_norm": bare}})
    routed = hf.by_types(config, lambda: [True] * config.layers())
    complete = hf.with_networks(layers, routed, lambda: hf.gated(config), lambda: _spark_experts(config))
    return _muse(config, complete)


def _spark_experts(config: Config) -> Mapped:
    """Experts on normalized tokens of moe_hidden_size, whose outputs are normalized as well."""
    router = {
        "scores": "sigmoid",
        "correction": True,
        "scale": hf.positive(config, "routed_scaling_factor"),
        "multiplier": hf.positive(config, "output_multiplier"),
    }
    return hf.experts(
        config,
        router=router,
        latent=config.size("moe_hidden_size"),
        latent_norm=hf.rmsnorm(config, offset=1),
        expert_out_norm={"kind": "prescaled_rmsnorm", "eps": config.number("post_norm_eps")},
    )


def _muse(config: Config, layers: list[Mapped]) -> Mapped:
    """A decoder of these layers, with normalized embeddings and scaled, capped logits."""
    plain = {**hf.rmsnorm(config), "weight": False}
    head = {
        "scale": hf.positive(config, "output_multiplier"),
        "softcap": hf.positive(config, "final_logit_softcapping"),
    }
    return hf.decoder(config, hf.rmsnorm(config), layers, embedding={"norm": plain}, head=head)


def _layers(config: Config, block: Callable[[Mapped], Mapped]) -> list[Mapped]:
    """The mapping of every layer: `block` makes it of the layer's attention.

    Global layers have neither positions nor a window.
    """
    count = config.layers()
    slides = [(count - 1 - index) % PERIOD != 0 for index in range(count)]
    types = hf.layer_types(config, [hf.SLIDING if slide else hf.FULL for slide in slides])
    # a file may say layer by layer which have RoPE: a base of 0 means none
    thetas = config.per_layer("layer_rope_theta", count)
    has_rope = slides if thetas is None else [bool(theta) for theta in thetas]
    kinds = list(zip(types, has_rope, strict=True))
    layers = {kind: block(_attention(config, *kind)) for kind in dict.fromkeys(kinds)}
    return [layers[kind] for kind in kinds]


def _attention(config: Config, kind: str, has_rope: bool) -> Mapped:
    """Attention of a kind, SLIDING or FULL, with RoPE or without positions."""
    width = hf.head_dim(config)
    slides = hf.window(config) if kind == hf.SLIDING else None
    if kind == hf.SLIDING and slides is None:
        raise config.error(
            "sliding layers need a window", "state sliding_window", config.place("layer_types")
        )
    factor = hf.positive(config, "qk_scale_factor")
    return hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=hf.rope(config, width) if has_rope else {"kind": "none"},
        window=slides,
        qk_norm={"norm": {**hf.rmsnorm(config), "weight": False}},
        scale=factor.derive(factor.value * width.value**-0.5),
        output_gate={},
    )


MUSE_GLIMMER_WEIGHTS: Weights = {
    **hf.SANDWICH,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
}

MUSE_SPARK_WEIGHTS: Weights = {
    **MUSE_GLIMMER_WEIGHTS,
    **hf.EXPERTS,
    **hf.CORRECTED,
    "[model.]layers.*.mlp.pre_expert_proj.weight": "layers.*.ffn.latent_down.weight",
    "[model.]layers.*.mlp.pre_expert_norm.weight": "layers.*.ffn.latent_norm.weight",
    "[model.]layers.*.mlp.experts.post_expert_norm.weight": "layers.*.ffn.expert_out_norm_gain.scale",
    "[model.]layers.*.mlp.post_expert_proj.weight": "layers.*.ffn.latent_up.weight",
    "[model.]layers.*.post_feedforward_layernorm.weight": "layers.*.ffn_post_norm_gain.scale",
    "[model.]layers.*.post_attention_residual_gate.gate": "layers.*.attention_residual.gate",
    "[model.]layers.*.post_feedforward_residual_gate.gate": "layers.*.ffn_residual.gate",
}

FAMILIES = {
    "muse_glimmer_text": Family(
        "Muse Glimmer's text part: MuseGlimmerTextConfig and MuseGlimmerForConditionalGeneration.",
        _muse_glimmer,
        MUSE_GLIMMER_WEIGHTS,
    ),
    "muse_spark_text": Family(
        "Muse Spark's text part: MuseSparkTextConfig and MuseSparkForConditionalGeneration.",
        _muse_spark,
        MUSE_SPARK_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
}
