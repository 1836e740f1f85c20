"""InternLM 2 and 2.5, whose class is in their repositories: InternLM2Config."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import FUSED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("internlm2",)
OWN = {"attention_bias": None, "mlp_bias": None, "vocab_size": 103168, "bias": True}


def mapping(config: Config) -> Mapped:
    """As Llama; `bias` biases the four projections of attention."""
    config = config.of_class(OWN, like="llama")
    return llama_like(config, heads={"bias": config.flag("bias")})


def weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, key and value, one key head after another."""
    config = config.of_class(OWN, like="llama")
    heads = config.size("num_attention_heads")
    groups = config.size("num_key_value_heads", default=heads).value
    return {
        "[model.]tok_embeddings.weight": "embedding.tokens.weight",
        "[model.]layers.*.attention.wqkv.*": Parts(FUSED, groups=groups),
        "[model.]layers.*.attention.wo.*": "layers.*.attention.o_proj.*",
        "[model.]layers.*.attention_norm.*": "layers.*.attention_norm.*",
        "[model.]layers.*.ffn_norm.*": "layers.*.ffn_norm.*",
        "[model.]layers.*.feed_forward.w1.*": "layers.*.ffn.gate_proj.*",
        "[model.]layers.*.feed_forward.w3.*": "layers.*.ffn.up_proj.*",
        "[model.]layers.*.feed_forward.w2.*": "layers.*.ffn.down_proj.*",
        "[model.]norm.*": "final_norm.*",
        "output.weight": "lm_head.weight",
    }
