"""Layers of several kinds of mixer, by the keys that name the kind of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.value import Mapped, without_none

LINEAR, CONVOLUTION = "linear_attention", "conv"
LEGACY = {"mamba": LINEAR, "attention": "full_attention"}
"""Words of older files for the kinds of layers."""


def kinds_of_layers(
    config: Config, default: Sequence[str], known: Sequence[str], key: str = "layer_types"
) -> list[str]:
    """The kind of each layer, one of those `known`, by the list at a key; `default` where there is none."""
    stated = config.per_layer(key, len(default)) or default
    kinds = [LEGACY.get(kind, kind) if isinstance(kind, str) else kind for kind in stated]
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        what = f"{key} {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {', '.join(known)}", config.place(key))
    return kinds


def by_kind(kinds: Sequence[str], layers: Mapping[str, Mapped]) -> list[Mapped]:
    """The layer of each kind, in their order."""
    return [layers[kind] for kind in kinds]


def hybrid_layers(
    kinds: Sequence[str], mixers: Mapping[str, Callable[[], Mapped]], **fields: Any
) -> list[Mapped]:
    """Pre-norm layers of these kinds, in this order; `mixers` make the part in which a kind differs.

    `fields` are those that all layers have; None leaves one out. A kind that no layer has is not made.
    """
    made = {
        kind: without_none({"kind": "pre_norm", **mixers[kind](), **fields}) for kind in dict.fromkeys(kinds)
    }
    return by_kind(kinds, made)
