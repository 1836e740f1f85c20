"""The language model of Qwen 3.5 with experts: Qwen3_5MoeTextConfig and Qwen3_5MoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.delta_hybrid import (
    MIXTURE,
    QWEN3_5_PROJECTIONS,
    gated_experts,
    qwen_layers,
    qwen_weights,
)

MODEL_TYPES = ("qwen3_5_moe_text",)
UNREAD = "intermediate_size decoder_sparse_step mlp_only_layers norm_topk_prob"
"""Keys of published files that the class does not read: every layer has experts, whose weights sum to 1."""


def mapping(config: Config) -> Mapped:
    """As Qwen3-Next, with experts in every layer."""
    config = config.of_class()
    config.ignore(*UNREAD.split())
    layers = qwen_layers(config)
    routed = with_networks(
        layers, [True] * len(layers), lambda: gated(config), lambda: gated_experts(config, {})
    )
    return decoder(config, rmsnorm(config, offset=1), routed)


def weights(config: Config) -> Weights:
    """As of the dense models, and of experts."""
    return {**qwen_weights(config.of_class(), QWEN3_5_PROJECTIONS), **MIXTURE}
