"""The language model of Qwen 3.5, dense: Qwen3_5TextConfig and Qwen3_5ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.delta_hybrid import QWEN3_5_PROJECTIONS, qwen_layers, qwen_weights

MODEL_TYPES = ("qwen3_5_text",)


def mapping(config: Config) -> Mapped:
    """As Qwen3-Next, with one network for all tokens."""
    config = config.of_class()
    config.ignore("mlp_only_layers")
    layers, dense = qwen_layers(config), lambda: gated(config)
    return decoder(
        config, rmsnorm(config, offset=1), with_networks(layers, [False] * len(layers), dense, dense)
    )


def weights(config: Config) -> Weights:
    """Queries, keys and values lie one after the other."""
    return qwen_weights(config.of_class(), QWEN3_5_PROJECTIONS)
