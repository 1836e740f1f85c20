"""Granite 3 and 4 and HyperCLOVA X: Llama's layers with constant factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Reader, Weights, position
from archcli.load.huggingface.weights.hybrid import INPUT_NORMS, by_kinds
from archcli.load.huggingface.whole.llama_like import llama_like


def _granite_like(
    config: Config,
    *,
    heads: Mapping[str, Any] = hf.NOTHING,
    block: Mapping[str, Any] = hf.NOTHING,
    **options: Any,
) -> Mapped:
    """As Llama, with factors on embeddings, residuals and scores, and a divisor of logits.

    attention_multiplier stands in place of head_dim^-0.5. `options` are further ones of `llama_like`.
    """
    # logits_scaling divides: Granite's logits are logits / logits_scaling, HyperCLOVA X's times it
    divisor = hf.multiplier(config, "logits_scaling")
    factors = {
        "embedding": hf.without_none({"scale": hf.multiplier(config, "embedding_multiplier")}),
        "head": None if divisor is None else {"scale": divisor.derive(1 / divisor.value)},
    }
    residual = hf.without_none({"residual_multiplier": hf.multiplier(config, "residual_multiplier")})
    scale = {} if "scale" in heads else {"scale": config.number("attention_multiplier")}
    return llama_like(config, heads={**scale, **heads}, block={**residual, **block}, **{**factors, **options})


PERIOD = 4
"""Of four layers the first has no window, where `layer_types` says nothing."""


def _with_windows(config: Config, **options: Any) -> Mapped:
    """As Granite, with windows and sinks; layer_rope_theta is the base of each layer, 0 for no position."""
    hf.check_window(config)
    return _granite_like(
        config,
        heads={"sinks": True},
        slides=lambda index: index % PERIOD != 0,
        networks=lambda layers: [*map(_with_position, layers, _positions(config))],
        **{"ffn": hf.gated(config, bias=config.flag("mlp_bias")), **options},
    )


def _with_position(layer: Mapped, position: Any) -> Mapped:
    """The layer with this position in its attention."""
    return {**layer, "attention": {**layer["attention"], "position": position}}


def _positions(config: Config) -> Iterator[Any]:
    """The position of each layer."""
    width, count = hf.head_dim(config), config.layers()
    thetas = config.per_layer("layer_rope_theta", count)
    if thetas is None:
        yield from [hf.rope(config, width)] * count
        return
    for theta in thetas:
        place = ConfigValue(theta, config.place("layer_rope_theta"))
        yield (
            position(config, width, {**hf.rope_parameters(config), "rope_theta": place})
            if theta
            else {"kind": "none"}
        )


def _experts(config: Config) -> Mapped:
    """Experts, weighed by a softmax over the chosen, and a shared one where it has a width."""
    # the class of granitemoe has no such key, and a file of it may state one all the same
    has_shared = "shared_intermediate_size" in config.defaults
    has_shared = has_shared and config.count("shared_intermediate_size").value > 0
    shared = hf.gated(config, width="shared_intermediate_size") if has_shared else None
    return hf.experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)


def _granitemoe(config: Config) -> Mapped:
    """As Granite with experts."""
    return _granite_like(config, ffn=_experts(config))


def _granitemoe_swa(config: Config) -> Mapped:
    """As Granite with experts, windows and sinks."""
    return _with_windows(config, ffn=_experts(config))


SINKS = {"[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight"}


HYBRID_UNREAD = (
    "normalization_function init_method num_logits_to_keep rope_theta rope_parameters rope_scaling"
)
"""Keys that the class does not read, or that only layers with RoPE do, and there may be none."""


def _hybrid(config: Config) -> Mapped:
    """As Granite with Mamba-2 in most layers; experts beside a shared one, or a network in its place."""
    config.ignore(*HYBRID_UNREAD.split())
    has_rope = config.get("position_embedding_type", default=None) == "rope"
    kinds = _hybrid_kinds(config)

    def networks(layers: list[Mapped]) -> list[Mapped]:
        rest = {key: value for key, value in layers[0].items() if key != "attention"}
        by_kind = {hf.FULL: layers[0]}
        if hf.LINEAR in kinds:
            by_kind[hf.LINEAR] = {**rest, "mixer": hf.bamba_mixer(config)}
        return [by_kind[kind] for kind in kinds]

    heads = {} if has_rope else {"position": {"kind": "none"}}
    return _granite_like(config, heads=heads, ffn=_hybrid_ffn(config), networks=networks)


def _hybrid_kinds(config: Config) -> list[str]:
    """The kind of each layer, by default Mamba-2."""
    key = "layer_types" if config.data.get("layer_types") is not None else "layers_block_type"
    config.ignore("layer_types", "layers_block_type")
    return hf.kinds_of_layers(config, [hf.LINEAR] * config.layers(), (hf.FULL, hf.LINEAR), key)


def _hybrid_ffn(config: Config) -> Mapped:
    shared = hf.gated(config, width="shared_intermediate_size")
    if not config.count("num_local_experts"):
        return shared
    return hf.experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)


HYBRID_SHARED = "[model.]layers.*.shared_mlp"
DENSE: Weights = {
    f"{HYBRID_SHARED}.input_linear.weight": Parts(
        ("layers.*.ffn.gate_proj.weight", "layers.*.ffn.up_proj.weight")
    ),
    f"{HYBRID_SHARED}.output_linear.weight": "layers.*.ffn.down_proj.weight",
}
"""The network of a model without experts, which files name as a shared expert."""

HYBRID_EVERYWHERE: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if ".input_layernorm." not in name},
    **hf.mamba2_names("[model.]layers.*.mamba"),
}


def _hybrid_weights(config: Config) -> Weights:
    """The names of layers of either kind, with experts or without."""
    ffn = hf.GRANITE_EXPERTS if config.count("num_local_experts") else DENSE
    return {**hf.renamed(HYBRID_EVERYWHERE, ffn), **by_kinds(_hybrid_kinds(config), INPUT_NORMS)}


HYPERCLOVAX_WEIGHTS = {
    **hf.LLAMA,
    "[model.]layers.*.post_norm1.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_norm2.weight": "layers.*.ffn_post_norm.weight",
}


def _hyperclovax(config: Config) -> Mapped:
    """As Granite with a norm after each sublayer too; logits are multiplied, not divided."""
    kind = "sandwich" if config.flag("use_post_norm") else "pre_norm"
    scale, factor = (
        hf.optional_number(config, "attention_multiplier"),
        hf.multiplier(config, "logits_scaling"),
    )
    head = None if factor is None else {"scale": factor}
    return _granite_like(config, heads={"scale": scale}, block={"kind": kind}, head=head)


FILES_OF_4 = ("block_sparse_moe.router.layer", "block_sparse_moe.input_", "block_sparse_moe.output_")
"""Names in files of transformers 4, which the variants with windows never had."""
LATER_EXPERTS: Weights = {
    name: rule for name, rule in hf.GRANITE_EXPERTS.items() if not any(old in name for old in FILES_OF_4)
}


def _with_experts(mapping: Reader, weights: Weights = hf.GRANITE_EXPERTS) -> Family:
    return Family(
        "Granite 3 with experts: GraniteMoeConfig, its Shared and SWA variants, and their ForCausalLM.",
        mapping,
        {**hf.LLAMA, **weights},
        aliases={"num_experts": "num_local_experts"},
        defaults={"mlp_bias": False},
    )


FAMILIES = {
    "granite": Family("Granite 3: GraniteConfig and GraniteForCausalLM.", _granite_like, hf.LLAMA),
    "granite_swa": Family(
        "Granite with sliding windows: GraniteSWAConfig and GraniteSWAForCausalLM.",
        lambda config: _with_windows(config, tied=True),
        {**hf.LLAMA, **SINKS},
    ),
    "granitemoe": _with_experts(_granitemoe),
    "granitemoeshared": _with_experts(_granitemoe),
    "granitemoe_swa": _with_experts(_granitemoe_swa, {**LATER_EXPERTS, **SINKS}),
    "granitemoehybrid": Family(
        "Granite 4: GraniteMoeHybridConfig and GraniteMoeHybridForCausalLM.",
        _hybrid,
        _hybrid_weights,
        aliases={"num_experts": "num_local_experts"},
        defaults={"mlp_bias": False, "mamba_d_head": "auto"},
    ),
    "hyperclovax": Family(
        "HyperCLOVA X SEED: HyperCLOVAXConfig and HyperCLOVAXForCausalLM.", _hyperclovax, HYPERCLOVAX_WEIGHTS
    ),
}
