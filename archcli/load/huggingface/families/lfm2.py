"""Liquid's LFM2: Lfm2Config and Lfm2ForCausalLM."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL
from archcli.load.huggingface.parts.recurrent import CONVOLUTION, kinds_of_layers
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.lfm_like import LFM_KINDS, lfm_like, lfm_weights

MODEL_TYPES = ("lfm2",)
UNREAD = """
    block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu block_use_xavier_init
    conv_dim conv_dim_out conv_use_xavier_init use_pos_enc num_heads theta hidden_act
"""
"""Keys of published files that the class does not read."""


def mapping(config: Config) -> Mapped:
    """Short convolutions and layers of attention, all with SwiGLU, whose width is adjusted."""
    config = config.of_class()
    config.ignore(*UNREAD.split())
    ffn, kinds = {"kind": "glu", "d_ff": _width(config)}, _kinds(config)
    return lfm_like(config, kinds, [ffn] * len(kinds))


def _kinds(config: Config) -> list[str]:
    """The kind of each layer: `layer_types`, or attention in those that full_attn_idxs names, else all."""
    indices = config.get("full_attn_idxs", default=list(range(config.layers())))
    if not isinstance(indices, list):
        what = f"full_attn_idxs must be a list of whole numbers, not {short_repr(indices)}"
        raise config.error(what, at=config.place("full_attn_idxs"))
    default = [FULL if index in indices else CONVOLUTION for index in range(config.layers())]
    return kinds_of_layers(config, default, LFM_KINDS)


def _width(config: Config) -> ConfigValue[int]:
    """The network's width: two thirds of what is stated, times a factor, rounded up to a multiple."""
    stated = config.size("block_ff_dim", default=config.size("intermediate_size"))
    if not config.flag("block_auto_adjust_ff_dim"):
        return stated
    width = int(2 * stated.value / 3)
    if not config.stated_null("block_ffn_dim_multiplier"):
        multiple = config.size("block_multiple_of").value
        width = int(config.number("block_ffn_dim_multiplier").value * width)
        width = multiple * -(-width // multiple)
    return stated.derive(width)


def weights(config: Config) -> Weights:
    """The names of layers of either kind."""
    return lfm_weights(_kinds(config.of_class()))
