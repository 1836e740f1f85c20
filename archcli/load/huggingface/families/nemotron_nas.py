"""Llama-Nemotron 49B and 253B, whose class is in their repositories: DeciLMConfig."""

from __future__ import annotations

from dataclasses import replace

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("nemotron-nas",)
OWN = {"intermediate_size": None}
MULTIPLE = 256
SWITCHES = ("replace_with_linear", "sparsify")
NONE = (None, False)


def mapping(config: Config) -> Mapped:
    """As Llama, each layer with heads and a network of its own, or without one of them.

    arXiv:2411.19146: `block_configs` says which.
    """
    config = config.of_class(OWN, like="llama")
    config.ignore("intermediate_size", "num_key_value_heads", "block_return_only_hidden_states")
    config.only("position_embedding_type", "rope", default="rope")
    blocks = config.per_layer("block_configs", config.layers())
    if blocks is None:
        raise config.error("key 'block_configs' is missing", "it has an entry for each layer")
    layers = [layer for layer in (_layer(config, block) for block in blocks) if len(layer) > 1]
    if len(layers) < len(blocks):
        config.note("layers without attention and network are passed over: later ones have lower numbers")
    if not layers:
        raise config.error("no layer has attention or a network", at=config.place("block_configs"))
    return decoder(config, rmsnorm(config), layers)


def _layer(config: Config, block: object) -> Mapped:
    if not isinstance(block, dict):
        what = f"block_configs has an entry that is no mapping: {short_repr(block)}"
        raise config.error(what, at=config.place("block_configs"))
    stated = Config(block, config.places, notes=config.notes)
    attend, network = stated.inner("attention", {}), stated.inner("ffn", {})
    return {"kind": "pre_norm", **_attention(config, attend), **_network(config, network)}


def _attention(config: Config, stated: Config) -> Mapped:
    if stated.flag("no_op", default=False):
        return {}
    for key in (*SWITCHES, "num_sink_tokens", "unshifted_sink", "llama4", "mamba"):
        stated.only(key, *NONE, default=None)
    heads, group = config.size("num_attention_heads"), stated.size("n_heads_in_group")
    kv_heads = heads.value // group.value
    if kv_heads * group.value != heads.value:
        raise config.error(f"{heads} heads are no multiple of n_heads_in_group {group}", at=heads.place)
    own = replace(config, data={**config.data, "num_key_value_heads": kv_heads})
    window = stated.optional_size("window_length")
    bias = config.flag("attention_bias")
    return {"attention": attention(own, head_dim(config), bias=bias, window=window)}


def _network(config: Config, stated: Config) -> Mapped:
    """A network of `intermediate_size`, or of two thirds of ffn_mult widths, rounded up."""
    if stated.flag("no_op", default=False):
        return {}
    for key in (*SWITCHES, "moe"):
        stated.only(key, *NONE, default=None)
    width = config.size("hidden_size")
    exact = stated.optional_size("intermediate_size")
    d_ff = int(2 * stated.number("ffn_mult").value * width.value / 3) if exact is None else exact.value
    rounded = -(-d_ff // MULTIPLE) * MULTIPLE if exact is None else d_ff
    own = replace(config, data={**config.data, "intermediate_size": rounded})
    return {"ffn": gated(own, bias=config.flag("mlp_bias"))}


WEIGHTS: Weights = LLAMA
