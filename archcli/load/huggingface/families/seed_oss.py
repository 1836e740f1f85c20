"""Seed-OSS: SeedOssConfig and SeedOssForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_defaults, llama_like

MODEL_TYPES = ("seed_oss",)
DEFAULTS = llama_defaults(
    vocab_size=155136,
    intermediate_size=27648,
    num_hidden_layers=64,
    num_attention_heads=80,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=524288,
    attention_bias=True,
    attention_out_bias=False,
)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama, where the bias of the output projection is a key of its own."""
    config = config.of_class(DEFAULTS)
    config.ignore("residual_dropout")
    inner, outer = config.flag("attention_bias"), config.flag("attention_out_bias")
    bias = [which for which, biased in zip("qkvo", (inner, inner, inner, outer), strict=True) if biased]
    return llama_like(config, heads={"bias": bias}, ffn=gated(config, bias=config.flag("mlp_bias")))
