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
DEFAULTS = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "n_shared_experts": 1,
    "n_routed_experts": 128,
    "routed_scaling_factor": 1.0,
    "kv_lora_rank": 256,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 64,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 4,
    "first_k_dense_replace": 0,
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "max_position_embeddings": 1048576,
    "rms_norm_eps": 1e-6,
    "rope_parameters": YARN,
    "rope_interleave": True,
    "attention_bias": False,
    "tie_word_embeddings": False,
}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3 with a softmax router, and queries that grow with their position."""
    config = config.of_class(DEFAULTS, num_experts="n_routed_experts")
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
