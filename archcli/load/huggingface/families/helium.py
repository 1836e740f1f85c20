"""Helium of Kyutai: HeliumConfig and HeliumForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import square_heads
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("helium",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with interleaved RoPE; the output projection is square and never biased."""
    config = config.of_class()
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    options = {"bias": bias, "position": rope(config, square_heads(config), pairing="interleaved")}
    return llama_like(config, heads=options, ffn=gated(config, bias=config.flag("mlp_bias")))
