"""Keys of models with recurrent layers: the mixers, and the mixer of each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config, is_number, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.weights.map import Weights

LINEAR, CONVOLUTION = "linear_attention", "conv"
OLDER_KINDS = {"mamba": LINEAR, "attention": "full_attention"}
"""Kinds of layers in older files."""


def kinds_of_layers(
    config: Config, default: Sequence[str], known: Sequence[str], key: str = "layer_types"
) -> list[str]:
    """The kind of each layer, one of those `known`, by the list at a key; `default` where there is none."""
    entries = config.per_layer(key, len(default)) or default
    kinds = [OLDER_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in entries]
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
    """Pre-norm layers of these kinds, in this order.

    mixers: functions that make the part in which a kind differs, called for kinds that some layer has.
    fields: those that all layers have; None leaves one out.
    """
    layers = {
        kind: without_none({"kind": "pre_norm", **mixers[kind](), **fields}) for kind in dict.fromkeys(kinds)
    }
    return by_kind(kinds, layers)


class Mamba2Keys(NamedTuple):
    """A family's keys for the settings of a Mamba-2 layer, each under the setting's name."""

    n_heads: str = "mamba_n_heads"
    head_dim: str = "mamba_d_head"
    state: str = "mamba_d_state"
    groups: str = "mamba_n_groups"
    conv: str = "mamba_d_conv"
    chunk: str = "mamba_chunk_size"
    bias: str = "mamba_proj_bias"
    conv_bias: str = "mamba_conv_bias"
    act: str = "hidden_act"
    eps: str = "rms_norm_eps"


BAMBA = Mamba2Keys()
"""The keys of Bamba, Granite 4 and Falcon-H1."""


def mamba2(config: Config, keys: Mamba2Keys, head_dim: ConfigValue[int], **more: Any) -> Mapped:
    """A Mamba-2 mixer; `more` are further fields, and None leaves one out."""
    groups, conv_bias = config.size(keys.groups), config.nullable_flag(keys.conv_bias)
    return without_none(
        {
            "kind": "mamba2",
            "n_heads": config.size(keys.n_heads),
            "head_dim": head_dim,
            "state": config.size(keys.state),
            "n_groups": groups,
            "conv_kernel": config.size(keys.conv),
            "chunk": config.size(keys.chunk),
            "bias": config.nullable_flag(keys.bias) or None,
            "conv_bias": None if conv_bias else conv_bias,
            "activation": activation(config, keys.act),
            "norm": {"kind": "rmsnorm", "eps": config.number(keys.eps), "groups": groups},
            **more,
        }
    )


def bamba_mixer(config: Config) -> Mapped:
    """The mixer of Bamba and Granite 4: heads that make up mamba_expand times hidden_size."""
    width = mixer_width(config, BAMBA, expanded(config))
    return mamba2(config, BAMBA, width, step_limit=step_limit(config))


def mixer_width(config: Config, keys: Mamba2Keys, inner: ConfigValue[int]) -> ConfigValue[int]:
    """The width of a head; for "auto" `inner` over the number of heads.

    Raises ArchError where all heads together are not `inner` wide.
    """
    heads = config.size(keys.n_heads)
    auto = config.get(keys.head_dim) == "auto"
    width = inner.derive(inner.value // heads.value) if auto else config.size(keys.head_dim)
    if width.value * heads.value != inner.value:
        what = f"{heads} heads of width {width} do not make a width of {inner}"
        raise config.error(what, "the class needs as many", config.place(keys.head_dim, keys.n_heads))
    return width


def expanded(config: Config, key: str = "mamba_expand") -> ConfigValue[int]:
    """The width of all heads: hidden_size times a factor."""
    hidden, factor = config.size("hidden_size"), config.number(key)
    width = factor.value * hidden.value
    if width < 1:
        raise config.error(f"{key} {factor} leaves no width", at=config.place(key))
    return hidden.derive(int(width))


def step_limit(config: Config, key: str = "time_step_limit") -> list[Any] | None:
    """The bounds of step sizes; None for 0 and infinity."""
    entry = config.value(key, default=None)
    pair = [0.0, inf] if entry.value is None else entry.value
    is_pair = isinstance(pair, list) and len(pair) == len(("least", "most"))
    bounds: list[Any] = [inf if value in INFINITE else value for value in pair] if is_pair else [None, None]
    least, most = bounds
    if not all(is_number(bound) or bound == inf for bound in bounds) or least > most:
        what = f"{key} must be two numbers, the least and the most, not {short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    open_below, open_above = least <= 0, most == inf
    if open_below and open_above:
        return None
    return [None if open_below else float(least), None if open_above else float(most)]


INFINITE: tuple[Any, ...] = ({"__float__": "Infinity"}, "Infinity")
"""Other spellings of infinity, as JSON has none."""


def mamba2_names(theirs: str, ours: str = "layers.*.mixer") -> Weights:
    """The weight names of a Mamba-2 mixer under these prefixes."""
    return {
        **{f"{theirs}.{name}.*": f"{ours}.{name}.*" for name in ("in_proj", "out_proj")},
        f"{theirs}.conv1d.*": f"{ours}.conv.*",
        f"{theirs}.norm.weight": f"{ours}.norm.weight",
        f"{theirs}.D": f"{ours}.D.weight",
        **{f"{theirs}.{name}": f"{ours}.dt.{name}" for name in ("A_log", "dt_bias")},
    }
