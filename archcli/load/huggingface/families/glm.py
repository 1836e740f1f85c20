"""GLM-4 9B in transformers' own form: GlmConfig and GlmForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import GATE_UP, LLAMA
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("glm",)

DEFAULTS = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 0.00000015625,
    "attention_bias": True,
    "tie_word_embeddings": False,
}


def mapping(config: Config) -> Mapped:
    """As Llama with biased queries, keys and values, and interleaved RoPE on half of each head."""
    config = config.of_class(DEFAULTS)
    width = head_dim(config)
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    place = rope(config, width, pairing="interleaved", partial=0.5)
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, width, bias=bias, position=place),
        "ffn": gated(config),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = {**LLAMA, "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP}
