"""Seed-OSS: SeedOssConfig and SeedOssForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("seed_oss",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama, where the bias of the output projection is a key of its own."""
    config = config.of_class()
    config.ignore("residual_dropout")
    inner, outer = config.flag("attention_bias"), config.flag("attention_out_bias")
    bias = [which for which, biased in zip("qkvo", (inner, inner, inner, outer), strict=True) if biased]
    return llama_like(config, heads={"bias": bias}, ffn=gated(config, bias=config.flag("mlp_bias")))
