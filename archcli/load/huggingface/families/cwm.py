"""Code World Model of Meta: CwmConfig and CwmForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import check_window
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("cwm",)
PERIOD = 4
"""Of four layers the first has no window, where `layer_types` says nothing."""
LLAMA3 = {
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama, with windows in three of four layers and no bias in attention."""
    config = config.of_class()
    check_window(config)
    config.ignore("attention_bias")  # the class has none whatever the file says
    ffn = gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, ffn=ffn, slides=lambda index: index % PERIOD != 0)
