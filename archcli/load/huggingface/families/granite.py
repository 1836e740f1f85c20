"""Granite 3 and 4 and HyperCLOVA X: Llama's layers with constant factors."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import FULL, optional_number
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.parts.recurrent import LINEAR, bamba_mixer, kinds_of_layers, mamba2_names
from archcli.load.huggingface.weights.hybrid import INPUT_NORMS, by_kinds
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import GRANITE_EXPERTS, LLAMA
from archcli.load.huggingface.whole.llama_like import granite_like, granite_with_windows, multiplier


def _granite(config: Config) -> Mapped:
    """As Llama, with factors; attention_multiplier stands in place of head_dim^-0.5."""
    scale = config.number("attention_multiplier")
    return granite_like(config, heads={"bias": config.flag("attention_bias"), "scale": scale})


GRANITE_SWA_WEIGHTS = {**LLAMA, "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight"}


def _granite_swa(config: Config) -> Mapped:
    """As Granite, with windows and sinks; some layers may have no position."""
    return granite_with_windows(config, tied=True)


def _granitemoe(config: Config) -> Mapped:
    """As Granite with experts, weighed by a softmax over the chosen; a shared one where it has a width.

    The one of granitemoe_swa has windows and sinks besides.
    """
    kind = config.model_type
    wide = kind != "granitemoe" and config.count("shared_intermediate_size").value > 0
    shared = gated(config, width="shared_intermediate_size") if wide else None
    ffn = experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)
    if kind == "granitemoe_swa":
        return granite_with_windows(config, ffn=ffn)
    heads = {"bias": config.flag("attention_bias"), "scale": config.number("attention_multiplier")}
    return granite_like(config, heads=heads, ffn=ffn)


GRANITEMOE_WEIGHTS: Weights = {
    **LLAMA,
    **GRANITE_EXPERTS,
    "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight",
}


HYBRID_OWN = {"mlp_bias": False, "mamba_d_head": "auto"}
HYBRID_UNREAD = (
    "normalization_function init_method num_logits_to_keep rope_theta rope_parameters rope_scaling"
)
"""Keys that the class does not read, or for layers with RoPE alone, of which there may be none."""


def _hybrid(config: Config) -> Mapped:
    """As Granite, most layers of Mamba-2; experts with a shared one, or where there are none that alone."""
    config.ignore(*HYBRID_UNREAD.split())
    heads = {"bias": config.flag("attention_bias"), "scale": config.number("attention_multiplier")}
    if config.get("position_embedding_type", default=None) != "rope":
        heads["position"] = {"kind": "none"}
    kinds = _hybrid_kinds(config)

    def networks(layers: list[Mapped]) -> list[Mapped]:
        rest = {key: value for key, value in layers[0].items() if key != "attention"}
        made = {FULL: layers[0]}
        if LINEAR in kinds:
            made[LINEAR] = {**rest, "mixer": bamba_mixer(config)}
        return [made[kind] for kind in kinds]

    return granite_like(config, heads=heads, ffn=_hybrid_ffn(config), networks=networks)


def _hybrid_kinds(config: Config) -> list[str]:
    """The kind of each layer, by default Mamba-2."""
    key = "layer_types" if config.data.get("layer_types") is not None else "layers_block_type"
    config.ignore("layer_types", "layers_block_type")
    return kinds_of_layers(config, [LINEAR] * config.layers(), (FULL, LINEAR), key)


def _hybrid_ffn(config: Config) -> Mapped:
    shared = gated(config, width="shared_intermediate_size")
    if not config.count("num_local_experts"):
        return shared
    return experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)


HYBRID_SHARED = "[model.]layers.*.shared_mlp"
ALONE: Weights = {
    f"{HYBRID_SHARED}.input_linear.weight": Parts(
        ("layers.*.ffn.gate_proj.weight", "layers.*.ffn.up_proj.weight")
    ),
    f"{HYBRID_SHARED}.output_linear.weight": "layers.*.ffn.down_proj.weight",
}
"""The shared expert of a model that has no others."""

HYBRID_EVERYWHERE: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".input_layernorm." not in name},
    **mamba2_names("[model.]layers.*.mamba"),
}


def _hybrid_weights(config: Config) -> Weights:
    """The names of layers of either kind, with experts or without."""
    ffn = GRANITE_EXPERTS if config.count("num_local_experts") else ALONE
    return {**HYBRID_EVERYWHERE, **ffn, **by_kinds(_hybrid_kinds(config), INPUT_NORMS)}


HYPERCLOVAX_WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.post_norm1.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_norm2.weight": "layers.*.ffn_post_norm.weight",
}


def _hyperclovax(config: Config) -> Mapped:
    """As Granite with a norm after each sublayer too; logits are multiplied, not divided."""
    kind = "sandwich" if config.flag("use_post_norm") else "pre_norm"
    scale, factor = optional_number(config, "attention_multiplier"), multiplier(config, "logits_scaling")
    heads = {"bias": config.flag("attention_bias"), "scale": scale}
    head = None if factor is None else {"scale": factor}
    return granite_like(config, heads=heads, block={"kind": kind}, head=head)


FAMILIES = {
    "granite": Family("Granite 3: GraniteConfig and GraniteForCausalLM.", _granite, LLAMA),
    "granite_swa": Family(
        "Granite with sliding windows: GraniteSWAConfig and GraniteSWAForCausalLM.",
        _granite_swa,
        GRANITE_SWA_WEIGHTS,
    ),
    **dict.fromkeys(
        ("granitemoe", "granitemoeshared", "granitemoe_swa"),
        Family(
            "Granite 3 with experts: GraniteMoeConfig, its Shared and SWA variants, and their ForCausalLM.",
            _granitemoe,
            GRANITEMOE_WEIGHTS,
            aliases={"num_experts": "num_local_experts"},
            defaults={"mlp_bias": False},
        ),
    ),
    "granitemoehybrid": Family(
        "Granite 4: GraniteMoeHybridConfig and GraniteMoeHybridForCausalLM.",
        _hybrid,
        _hybrid_weights,
        aliases={"num_experts": "num_local_experts"},
        defaults=HYBRID_OWN,
    ),
    "hyperclovax": Family(
        "HyperCLOVA X SEED: HyperCLOVAXConfig and HyperCLOVAXForCausalLM.", _hyperclovax, HYPERCLOVAX_WEIGHTS
    ),
}
