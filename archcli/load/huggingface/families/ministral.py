"""Ministral 8B of 2024: MinistralConfig and MinistralForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import check_window
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("ministral",)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Mistral, where `layer_types` names the layers that have the window; without it, all have."""
    config = config.of_class()
    check_window(config, null=True)
    config.ignore("attention_bias", "mlp_bias")  # the class has none whatever the file says
    return llama_like(config, slides=lambda _: True)
