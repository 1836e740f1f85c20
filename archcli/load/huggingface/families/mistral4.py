"""Mistral Small 4: Mistral4Config and Mistral4ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import (
    after_first,
    best_groups,
    experts,
    shared_experts,
    with_networks,
)
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import sharpened
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MLA, SHARED

MODEL_TYPES = ("mistral4",)
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 128.0,
    "original_max_position_embeddings": 8192,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}
OWN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 128.0,
        "original_max_position_embeddings": 8192,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale_all_dim": 1.0,
        "mscale": 1.0,
        "llama_4_scaling_beta": 0.1,
    }
}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3 with a softmax router, and queries that grow with their position."""
    config = config.of_class(OWN, num_experts="n_routed_experts")
    latent = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    temperature = sharpened(config)
    attention = {**latent, **({"temperature": temperature} if temperature else {})}

    def sparse() -> Mapped:
        expert = gated(config, width="moe_intermediate_size")
        router = {
            "normalized": config.flag("norm_topk_prob"),
            "scale": config.number("routed_scaling_factor"),
            **best_groups(config, "top2"),
        }
        return experts(config, expert=expert, router=router, shared=shared_experts(config, expert))

    layers = [{"kind": "pre_norm", "attention": attention}] * config.layers()
    layers = with_networks(layers, after_first(config), lambda: gated(config), sparse)
    return decoder(config, rmsnorm(config), layers)


WEIGHTS: Weights = {**LLAMA, **MLA, **EXPERTS, **SHARED}
