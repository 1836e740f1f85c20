"""What layers of Gemma models share: keys and values, embeddings of every layer, two kinds of RoPE."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import QK_NORM, SANDWICH, UNREAD


def near_and_far(config: Config, width: ConfigValue[int]) -> tuple[ConfigValue[Mapped], ConfigValue[Mapped]]:
    """RoPE of the windowed layers, and of the global ones, which use `rope_scaling` and `rope_theta`."""
    near = {
        "rope_theta": config.number("rope_local_base_freq"),
        **parameters(config, "rope_parameters", SLIDING),
    }
    far = {**parameters(config, "rope_parameters", FULL), **parameters(config, "rope_scaling")}
    return position(config, width, near), position(config, width, far)


def kv_sources(config: Config, types: list[str]) -> list[int | None]:
    """By layer, the layer whose keys and values it reads; None for one with its own.

    The last num_kv_shared_layers read those of the last layer of their type before them.
    """
    shared = config.count("num_kv_shared_layers")
    own = types[: max(len(types) - shared.value, 0)]
    if not set(types) <= set(own):
        what = f"num_kv_shared_layers {shared} leaves no layer of some type with keys of its own"
        raise config.error(what, "fewer of them", shared.place)
    last = {kind: index for index, kind in enumerate(own)}
    return [None] * len(own) + [last[kind] for kind in types[len(own) :]]


def per_layer_embedding(config: Config) -> Mapped:
    """The table of further vectors, one for each layer."""
    return {
        "width": config.size("hidden_size_per_layer_input"),
        "vocab_size": config.size("vocab_size_per_layer_input"),
    }


PER_LAYER: Weights = {
    "[model.]embed_tokens_per_layer.weight": "per_layer_embedding.tokens.weight",
    "[model.]per_layer_model_projection.weight": "per_layer_embedding.projection.weight",
    "[model.]per_layer_projection_norm.weight": "per_layer_embedding.norm.weight",
    "[model.]layers.*.per_layer_input_gate.weight": "layers.*.per_layer_gate.weight",
    "[model.]layers.*.per_layer_projection.weight": "layers.*.per_layer_proj.weight",
    "[model.]layers.*.post_per_layer_input_norm.weight": "layers.*.per_layer_norm.weight",
}
"""The names of per-layer embeddings and of what reads them."""

NAMES: Weights = {**SANDWICH, **QK_NORM, **PER_LAYER}
"""The names that Gemma 3n and Gemma 4 have in common."""


def without_own_keys(sources: list[int | None]) -> Weights:
    """The names of what checkpoints store for layers that read the keys and values of others."""
    names = ("k_proj.*", "v_proj.*", "k_norm.*", "v_norm.*")
    return {
        f"[model.]layers.{index}.self_attn.{name}": Auxiliary(UNREAD)
        for index, source in enumerate(sources)
        if source is not None
        for name in names
    }
