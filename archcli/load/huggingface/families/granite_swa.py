"""Granite with sliding windows: GraniteSWAConfig and GraniteSWAForCausalLM."""

from collections.abc import Iterator
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.multipliers import GRANITE_DEFAULTS, granite_like
from archcli.load.huggingface.parts.rope import position, rope, stated
from archcli.load.huggingface.value import ConfigValue, Mapped
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("granite_swa",)
PERIOD = 4
"""Of four layers the first has no window, where `layer_types` says nothing."""
DEFAULTS = {
    **GRANITE_DEFAULTS,
    "vocab_size": 100352,
    "hidden_size": 2560,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "sliding_window": 128,
}
WEIGHTS = {**LLAMA, "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight"}


def mapping(config: Config) -> Mapped:
    """As Granite, with sinks; layer_rope_theta is the base of each layer, 0 or null for no position."""
    config = config.of_class(DEFAULTS)
    heads = {
        "bias": config.flag("attention_bias"),
        "scale": config.number("attention_multiplier"),
        "sinks": True,
    }
    return granite_like(
        config,
        heads=heads,
        slides=lambda index: index % PERIOD != 0,
        networks=lambda layers: [*map(_placed, layers, _positions(config))],
        tied=True,
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
