"""Jais 2: Jais2Config and Jais2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("jais2",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with LayerNorm, and an ungated network of squared ReLU."""
    config = config.of_class()
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias"))
    norm = layernorm(config.number("layer_norm_eps"))
    return llama_like(config, heads={"bias": config.flag("attention_bias")}, ffn=ffn, norm=norm)
