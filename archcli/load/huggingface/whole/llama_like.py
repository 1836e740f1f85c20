"""Decoders of Llama's kind: equal layers of grouped-query attention with RoPE and gated networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.family import NOTHING, Family, Reader
from archcli.load.huggingface.parts.attention import Flag, attention, head_dim, windows
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, mlp, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

Networks = Callable[[list[Mapped]], list[Mapped]]
"""A function that gives layers their feed-forward parts, such as experts in every second layer."""

Heads = Mapping[str, Any] | Callable[[ConfigValue[int] | None], Mapping[str, Any]]
"""Options of `attention`, or a function that gives them for a sliding window or None."""


def class_flag(config: Config, name: str) -> Flag:
    """A flag of the file; false where its class has no such key."""
    return config.flag(name) if name in config.defaults else False


def ungated(config: Config) -> Mapped:
    """A network without a gate, with biases by mlp_bias."""
    return mlp(config, config.size("intermediate_size"), "hidden_act", bias=class_flag(config, "mlp_bias"))


def llama_like(
    config: Config,
    *,
    heads: Heads = NOTHING,
    block: Mapping[str, Any] = NOTHING,
    ffn: Mapped | None = None,
    networks: Networks | None = None,
    norm: Mapped | None = None,
    slides: Callable[[int], bool] | None = None,
    **more: Any,
) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU; an argument replaces its part.

    heads: options of `attention`.
    block, more: further keys of a layer, and of the model.
    ffn, networks: the feed-forward part of all layers, or a function that gives each its own.
    slides: whether the layer of an index has the sliding window, where `layer_types` does not say; without
        `slides` no layer has one.

    attention_bias biases all four projections and mlp_bias all three matrices, where the class has the keys.
    """
    width = head_dim(config)
    if networks is None and ffn is None:
        ffn = gated(config, bias=class_flag(config, "mlp_bias"))

    def layer(window: ConfigValue[int] | None) -> Mapped:
        options = dict(heads(window) if callable(heads) else heads)
        if "bias" not in options:
            options["bias"] = class_flag(config, "attention_bias")
        attend = attention(config, width, **{"window": window, **options})
        return without_none({"kind": "pre_norm", "attention": attend, "ffn": ffn, **block})

    layers = [layer(None)] * config.layers() if slides is None else windows(config, layer, slides)
    layers = layers if networks is None else networks(layers)
    return decoder(config, rmsnorm(config) if norm is None else norm, layers, **more)


def like_llama(
    about: str,
    weights: Weights = LLAMA,
    *,
    ignored: tuple[str, ...] = (),
    aliases: Mapping[str, str] = NOTHING,
    defaults: Mapping[str, Any] = NOTHING,
    defaults_of: str = "",
    **parts: Reader | Mapped,
) -> Family:
    """A family of Llama's kind.

    `parts` are arguments of `llama_like`, or functions of a file that give them. `ignored` are keys that its
    files state and its class does not read.
    """

    def mapping(config: Config) -> Mapped:
        config.ignore(*ignored)
        options: dict[str, Any] = {
            name: part(config) if callable(part) else part for name, part in parts.items()
        }
        return llama_like(config, **options)

    return Family(about, mapping, weights, aliases, defaults, defaults_of)
