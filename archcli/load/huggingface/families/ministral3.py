"""Ministral 3: Ministral3Config and Ministral3ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import window
from archcli.load.huggingface.parts.rope import sharpened
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("ministral3",)
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}
OWN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000000.0,
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale_all_dim": 1.0,
        "mscale": 1.0,
        "llama_4_scaling_beta": 0.1,
    }
}
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Mistral, where queries grow with their position beyond the original context."""
    config = config.of_class(OWN)
    config.ignore("attention_bias", "mlp_bias", "layer_types")  # not read, whatever the file says
    return llama_like(config, heads={"window": window(config), "temperature": sharpened(config)})
