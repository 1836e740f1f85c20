"""Llama and models of its class (SmolLM 1 and 2, Yi, Vicuna): LlamaConfig and LlamaForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("llama",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU.

    attention_bias biases all four projections, mlp_bias all three matrices.
    """
    config = config.of_class()
    bias, ffn = config.flag("attention_bias"), gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=ffn)


WEIGHTS: Weights = LLAMA
