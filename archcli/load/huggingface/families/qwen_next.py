"""Qwen3-Next and Qwen 3.5: gated delta nets, and attention in some layers."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.delta_hybrid import (
    LAYER,
    MIXTURE,
    QWEN3_5_PROJECTIONS,
    qwen_layers,
    qwen_weights,
)


def _qwen3_next(config: Config) -> Mapped:
    """Gated delta nets, gated attention in every fourth layer; experts, one of them for every token."""
    layers = hf.with_networks(
        qwen_layers(config),
        hf.every_step(config),
        lambda: hf.gated(config),
        lambda: hf.gated_experts(config, hf.normalized_by(config)),
    )
    return hf.decoder(config, hf.rmsnorm(config, offset=1), layers)


def _qwen3_next_weights(config: Config) -> Weights:
    """Weight names; stored projections hold a key head's rows, then those of its value heads."""
    groups = config.size("linear_num_key_heads").value
    fused = {"in_proj_qkvz": "qkvg", "in_proj_ba": "ba"}
    projections = {
        f"{LAYER}.linear_attn.{theirs}.weight": Parts(
            tuple(f"layers.*.mixer.{name}_proj.weight" for name in ours), groups=groups
        )
        for theirs, ours in fused.items()
    }
    return {**qwen_weights(config, projections), **MIXTURE}


def _qwen3_5(config: Config) -> Mapped:
    """As Qwen3-Next, with one network for all tokens."""
    config.ignore("mlp_only_layers")
    layers, dense = qwen_layers(config), lambda: hf.gated(config)
    return hf.decoder(
        config, hf.rmsnorm(config, offset=1), hf.with_networks(layers, [False] * len(layers), dense, dense)
    )


def _qwen3_5_weights(config: Config) -> Weights:
    """Weight names; stored projections hold queries, keys and values one after the other."""
    return qwen_weights(config, QWEN3_5_PROJECTIONS)


QWEN3_5_MOE_UNREAD = "intermediate_size decoder_sparse_step mlp_only_layers norm_topk_prob"
"""Keys of published files that the class does not read: every layer has experts, whose weights sum to 1."""


def _qwen3_5_moe(config: Config) -> Mapped:
    """As Qwen3-Next, with experts in every layer."""
    config.ignore(*QWEN3_5_MOE_UNREAD.split())
    layers = qwen_layers(config)
    routed = hf.with_networks(
        layers, [True] * len(layers), lambda: hf.gated(config), lambda: hf.gated_experts(config, {})
    )
    return hf.decoder(config, hf.rmsnorm(config, offset=1), routed)


def _qwen3_5_moe_weights(config: Config) -> Weights:
    """Weight names: those of the dense models, and of experts."""
    return {**qwen_weights(config, QWEN3_5_PROJECTIONS), **MIXTURE}


FAMILIES = {
    "qwen3_next": Family(
        "Qwen3-Next: Qwen3NextConfig and Qwen3NextForCausalLM.", _qwen3_next, _qwen3_next_weights
    ),
    "qwen3_5_text": Family(
        "The language model of Qwen 3.5, dense: Qwen3_5TextConfig and Qwen3_5ForCausalLM.",
        _qwen3_5,
        _qwen3_5_weights,
    ),
    "qwen3_5_moe_text": Family(
        "The language model of Qwen 3.5 with experts: Qwen3_5MoeTextConfig and Qwen3_5MoeForCausalLM.",
        _qwen3_5_moe,
        _qwen3_5_moe_weights,
    ),
}
