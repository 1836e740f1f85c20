"""Baichuan 1 and 2, whose class is in their repositories: BaichuanConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED, LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("baichuan",)

SMALL = {
    "attention_bias": None,
    "mlp_bias": None,
    "vocab_size": 64000,
    "max_position_embeddings": 4096,
}
LARGE = {
    "attention_bias": None,
    "mlp_bias": None,
    "max_position_embeddings": None,
    "vocab_size": 64000,
    "hidden_size": 5120,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "model_max_length": 4096,
}
"""Those of the 7B and of the 13B, whose classes share their name."""


def mapping(config: Config) -> Mapped:
    """As Llama; the 13B, whose files have no max_position_embeddings, with ALiBi.

    Baichuan 2 divides the rows of its head by their lengths, which changes no count.
    """
    has_rope = config.get("max_position_embeddings", default=None) is not None
    small = has_rope or config.architecture.startswith("BaiChuan")
    config = config.of_class(SMALL if small else LARGE, like="llama")
    config.ignore("z_loss_weight", "model_max_length")
    if small:
        return llama_like(config)
    longest = config.size("model_max_length")
    return llama_like(config, heads={"position": {"kind": "alibi"}}, max_seq_len=longest)


WEIGHTS: Weights = {**LLAMA, "[model.]layers.*.self_attn.W_pack.*": Parts(FUSED)}
