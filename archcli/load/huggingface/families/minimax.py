"""MiniMax-01, lightning attention and some softmax attention: MiniMaxConfig and MiniMaxForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL, head_dim
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.minimax_like import minimax_like, minimax_weights

MODEL_TYPES = ("minimax",)


def mapping(config: Config) -> Mapped:
    """Layers as stated, or of both kinds in turn."""
    config = config.of_class(num_experts="num_local_experts")
    config.ignore("postnorm")
    width = head_dim(config)
    rotated = config.optional_size("rotary_dim")
    if rotated is not None and rotated != width:
        config.note("rotary_dim is not read by the class, which turns the whole width of a head")
    return minimax_like(config, _kinds(config), rope(config, width, theta=1e6))


def _kinds(config: Config) -> list[str]:
    return kinds_of_layers(config, [(FULL, LINEAR)[i % 2] for i in range(config.layers())], (FULL, LINEAR))


def weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    config = config.of_class()
    return minimax_weights(config, _kinds(config))
