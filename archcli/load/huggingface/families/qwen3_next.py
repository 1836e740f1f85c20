"""Qwen3-Next: Qwen3NextConfig and Qwen3NextForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import every_step, normalized_by, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.delta_hybrid import (
    LAYER,
    MIXTURE,
    gated_experts,
    qwen_layers,
    qwen_weights,
)

MODEL_TYPES = ("qwen3_next",)


def mapping(config: Config) -> Mapped:
    """Gated delta nets, gated attention in every fourth layer; experts, one of them for every token."""
    config = config.of_class()
    layers = with_networks(
        qwen_layers(config),
        every_step(config),
        lambda: gated(config),
        lambda: gated_experts(config, normalized_by(config)),
    )
    return decoder(config, rmsnorm(config, offset=1), layers)


def weights(config: Config) -> Weights:
    """The projections of a head of keys lie together, with those of its heads of values."""
    config = config.of_class()
    groups = config.size("linear_num_key_heads").value
    fused = {"in_proj_qkvz": "qkvg", "in_proj_ba": "ba"}
    projections = {
        f"{LAYER}.linear_attn.{theirs}.weight": Parts(
            tuple(f"layers.*.mixer.{name}_proj.weight" for name in ours), groups=groups
        )
        for theirs, ours in fused.items()
    }
    return {**qwen_weights(config, projections), **MIXTURE}
