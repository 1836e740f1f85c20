"""Arcee's foundation models (AFM-4.5B): ArceeConfig and ArceeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import mlp
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("arcee",)
SIZES = {"hidden_size": 2560, "intermediate_size": 18432, "max_position_embeddings": 4096}
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama, with an ungated network of squared ReLU."""
    config = config.of_class()
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": config.flag("attention_bias")}, ffn=ffn)
