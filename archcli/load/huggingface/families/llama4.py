"""Llama 4."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights

CHUNKED = "chunked_attention"


def _llama4(config: Config) -> Mapped:
    """RoPE layers attend within chunks, the rest to the whole context; some or all layers have experts.

    One expert is chosen, and one is shared.
    """
    # intermediate_size_mlp is not read where all layers have experts
    config.ignore("for_llm_compressor", "intermediate_size_mlp")
    count = config.layers()
    rotated = _rotated(config, count)
    types = _layer_types(config, [CHUNKED if rotates else hf.FULL for rotates in rotated])
    sparse = _sparse(config, count)
    kinds = [
        (rotates, kind == CHUNKED, index in sparse)
        for index, (rotates, kind) in enumerate(zip(rotated, types, strict=True))
    ]
    layers = {kind: _layer(config, *kind) for kind in dict.fromkeys(kinds)}
    return hf.decoder(config, hf.rmsnorm(config), [layers[kind] for kind in kinds])


def _rotated(config: Config, count: int) -> list[bool]:
    """Whether each layer has RoPE: in spite of its name, no_rope_layers is 1 for layers with RoPE."""
    interval = config.size("no_rope_layer_interval").value
    flags = config.get("no_rope_layers", default=[]) and config.per_layer("no_rope_layers", count)
    return [bool(rotates) for rotates in flags or [(i + 1) % interval != 0 for i in range(count)]]


def _layer_types(config: Config, default: list[str]) -> list[str]:
    """The kind of attention of each layer."""
    types = config.per_layer("layer_types", len(default)) or default
    unknown = [kind for kind in types if kind not in (CHUNKED, hf.FULL)]
    if unknown:
        what = f"layer_types {hf.short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {CHUNKED}, {hf.FULL}", config.place("layer_types"))
    return types


def _sparse(config: Config, count: int) -> list[Any]:
    """The indices of the layers with experts."""
    step = config.size("interleave_moe_layer_step").value
    layers = config.get("moe_layers", default=[*range(step - 1, count, step)])
    if not isinstance(layers, list):
        what = f"moe_layers must be a list, not {hf.short_repr(layers)}"
        raise config.error(what, at=config.place("moe_layers"))
    return layers


def _layer(config: Config, rotates: bool, chunked: bool, sparse: bool) -> Mapped:
    return {
        "kind": "pre_norm",
        "attention": _attention(config, rotates=rotates, chunked=chunked),
        "ffn": _experts(config) if sparse else hf.gated(config, width="intermediate_size_mlp"),
    }


def _attention(config: Config, *, rotates: bool, chunked: bool) -> Mapped:
    """GQA; a norm without weights follows RoPE, and queries without RoPE are scaled by their position."""
    width = hf.head_dim(config)
    more: Mapped = {}
    if chunked and not config.stated_null("attention_chunk_size"):
        more["chunk"] = config.size("attention_chunk_size")
    if rotates and config.flag("use_qk_norm"):
        more["qk_norm"] = {"when": "after_rope", "norm": {**hf.rmsnorm(config), "weight": False}}
    if not rotates and config.get("attn_temperature_tuning"):
        more["temperature"] = {
            "scale": config.number("attn_scale"),
            "floor_scale": config.size("floor_scale"),
        }
    position = hf.rope(config, width, theta=500000.0, pairing="interleaved") if rotates else {"kind": "none"}
    return hf.attention(config, width, bias=config.flag("attention_bias"), position=position, **more)


def _experts(config: Config) -> Mapped:
    """Experts whose input is scaled by the sigmoid of their logit, and a shared one of equal width."""
    expert = hf.gated(config)
    return {
        "kind": "moe",
        "n_experts": config.size("num_local_experts"),
        "top_k": config.size("num_experts_per_tok"),
        "expert": expert,
        "router": {"scores": "sigmoid", "normalized": False},
        "shared": expert,
        "weigh": "input",
    }


LLAMA4_WEIGHTS: Weights = {
    **{name.replace(".mlp.", ".feed_forward."): rule for name, rule in hf.LLAMA.items()},
    **{
        f"[model.]layers.*.feed_forward.shared_expert.{name}.weight": f"layers.*.ffn.shared.{name}.weight"
        for name in ("gate_proj", "up_proj", "down_proj")
    },
    "[model.]layers.*.feed_forward.router.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.feed_forward.experts.gate_up_proj": Parts(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"),
        axis=1,
        transposed=True,
    ),
    "[model.]layers.*.feed_forward.experts.down_proj": Parts(
        ("layers.*.ffn.experts.down_proj.weight",), transposed=True
    ),
}
"""Experts are stacked and stored [in, out]."""


FAMILIES = {
    "llama4_text": Family(
        "Llama 4, its text part: Llama4TextConfig and Llama4ForCausalLM.", _llama4, LLAMA4_WEIGHTS
    ),
}
