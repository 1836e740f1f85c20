"""Llama and models of its class (SmolLM 1 and 2, Yi, Vicuna): LlamaConfig and LlamaForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.common import attention, decoder, gated, head_dim, rmsnorm
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("llama",)

DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU.

    attention_bias biases all four projections, mlp_bias all three matrices.
    """
    config = config.of_class(DEFAULTS)
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, head_dim(config), bias=config.flag("attention_bias")),
        "ffn": gated(config, bias=config.flag("mlp_bias")),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = LLAMA
