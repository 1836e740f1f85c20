"""Yi as first published, XVERSE and Aquila, with classes in their repositories: Llama's, renamed."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("Yi", "aquila", "xverse")

UNBIASED = {"attention_bias": None, "mlp_bias": None}
YI = {"vocab_size": 64000, "num_key_value_heads": 4, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
XVERSE = {
    "vocab_size": 100278,
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "max_position_embeddings": 8192,
}
OWN: Mapping[str, Mapped] = {
    "Yi": {**UNBIASED, **YI, "rope_theta": 5000000.0},
    "aquila": {**UNBIASED, "vocab_size": 100008},
    "xverse": {**UNBIASED, **XVERSE},
}


def mapping(config: Config) -> Mapped:
    """As Llama, without biases."""
    config.ignore("quantization_bit", "initializer_weight")
    return llama_like(config.of_class(OWN[config.model_type], like="llama"))


WEIGHTS: Weights = {
    **LLAMA,
    "[model.]layers.*.ln1.weight": "layers.*.attention_norm.weight",
    "[model.]layers.*.ln2.weight": "layers.*.ffn_norm.weight",
}
