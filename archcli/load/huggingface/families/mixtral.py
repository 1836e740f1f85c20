"""Mixtral: MixtralConfig and MixtralForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.parts.windows import window
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("mixtral",)

DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "tie_word_embeddings": False,
}


def mapping(config: Config) -> Mapped:
    """As Mistral, with experts in every layer; the weights of the top k are normalized to sum 1."""
    config = config.of_class(DEFAULTS)
    experts = {
        "kind": "moe",
        "n_experts": config.size("num_local_experts", "num_experts"),
        "top_k": config.size("num_experts_per_tok"),
        "expert": gated(config),
    }
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), window=window(config)),
        "ffn": experts,
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = {
    **LLAMA,
    **EXPERTS,
    "[model.]layers.*.block_sparse_moe.gate.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.block_sparse_moe.experts.#.w1.weight": "layers.*.ffn.experts.gate_proj.weight",
    "[model.]layers.*.block_sparse_moe.experts.#.w3.weight": "layers.*.ffn.experts.up_proj.weight",
    "[model.]layers.*.block_sparse_moe.experts.#.w2.weight": "layers.*.ffn.experts.down_proj.weight",
}
