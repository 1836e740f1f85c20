"""Decoders of Granite's kind: Llama's, with factors on embeddings, scores, residuals and logits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.numbers import positive
from archcli.load.huggingface.parts.rope import position, rope, stated
from archcli.load.huggingface.parts.windows import check_window
from archcli.load.huggingface.value import ConfigValue, Mapped, without_none
from archcli.load.huggingface.whole.llama_like import LLAMA_DEFAULTS, NOTHING, llama_like

GRANITE_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        **LLAMA_DEFAULTS,
        "embedding_multiplier": 1.0,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "attention_multiplier": 1.0,
    }
)
"""The defaults of GraniteConfig."""

PERIOD = 4
"""Of four layers the first has no window, where `layer_types` says nothing."""


def multiplier(config: Config, name: str) -> ConfigValue[float] | None:
    """A factor above 0, or None where it is 1."""
    factor = positive(config, name)
    return None if factor == 1 else factor


def granite_like(config: Config, *, block: Mapping[str, Any] = NOTHING, **options: Any) -> Mapped:
    """As Llama, with factors on embeddings and residuals, and a divisor of logits.

    `options` are those of `llama_like`; the factor on scores is among its `heads`, as their scale.
    """
    divisor = multiplier(config, "logits_scaling")
    factors = {
        "embedding": without_none({"scale": multiplier(config, "embedding_multiplier")}),
        "head": None if divisor is None else {"scale": divisor.derive(1 / divisor.value)},
    }
    residual = without_none({"residual_multiplier": multiplier(config, "residual_multiplier")})
    ffn = {"ffn": gated(config, bias=config.flag("mlp_bias"))}
    return llama_like(config, **{**factors, **ffn, **options, "block": {**residual, **block}})


def granite_with_windows(config: Config, **options: Any) -> Mapped:
    """As Granite, with windows and sinks; layer_rope_theta is the base of each layer, 0 for no position."""
    check_window(config)
    bias, scale = config.flag("attention_bias"), config.number("attention_multiplier")
    return granite_like(
        config,
        heads={"bias": bias, "scale": scale, "sinks": True},
        slides=lambda index: index % PERIOD != 0,
        networks=lambda layers: [*map(_placed, layers, _positions(config))],
        **options,
    )


def _placed(layer: Mapped, place: Any) -> Mapped:
    """The layer with this position in its attention."""
    return {**layer, "attention": {**layer["attention"], "position": place}}


def _positions(config: Config) -> Iterator[Any]:
    """The position of each layer."""
    width, count = head_dim(config), config.layers()
    thetas = config.per_layer("layer_rope_theta", count)
    if thetas is None:
        yield from [rope(config, width)] * count
        return
    for theta in thetas:
        place = ConfigValue(theta, config.place("layer_rope_theta"))
        yield position(config, width, {**stated(config), "rope_theta": place}) if theta else {"kind": "none"}
