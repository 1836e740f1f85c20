"""MiniMax-01 and M1: lightning attention, some softmax attention, experts."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import FULL, head_dim
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.minimax_like import minimax_like, minimax_weights


def _minimax(config: Config) -> Mapped:
    """Layers as stated, or of both kinds in turn."""
    config.ignore("postnorm")
    width = head_dim(config)
    rotated = config.optional_size("rotary_dim")
    if rotated is not None and rotated != width:
        config.note("rotary_dim is not read by the class, which turns the whole width of a head")
    return minimax_like(config, _minimax_kinds(config), rope(config, width, theta=1e6))


def _minimax_kinds(config: Config) -> list[str]:
    return kinds_of_layers(config, [(FULL, LINEAR)[i % 2] for i in range(config.layers())], (FULL, LINEAR))


def _minimax_weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    return minimax_weights(config, _minimax_kinds(config))


MINIMAX_01_FACTORS = {
    **{
        f"{place}_attn_{factor}_factor": f"layernorm_{place}_attention_{factor}"
        for place in ("full", "linear")
        for factor in ("alpha", "beta")
    },
    **{f"mlp_{factor}_factor": f"layernorm_mlp_{factor}" for factor in ("alpha", "beta")},
}
KIND_OF = {0: LINEAR, 1: FULL}
"""What the numbers of attn_type_list mean."""


def _minimax_01(config: Config) -> Mapped:
    """Layers by attn_type_list; heads of softmax attention turn rotary_dim of their width."""
    config.only("postnorm", True, default=False)
    rotated = config.optional_size("rotary_dim")
    whole = rotated is None or rotated.value == head_dim(config).value
    turned = {
        "kind": "rope",
        "theta": config.number("rope_theta"),
        "rotary_dim": None if whole else rotated,
    }
    return minimax_like(config, _minimax_01_kinds(config), without_none(turned))


def _minimax_01_kinds(config: Config) -> list[str]:
    stated = config.per_layer("attn_type_list", config.layers())
    if stated is None:
        raise config.error("key 'attn_type_list' is missing", "it has 0 for linear attention, 1 for softmax")
    unknown = [number for number in stated if number not in (0, 1)]
    if unknown:
        what = f"attn_type_list {short_repr(unknown[0])} is not supported"
        raise config.error(what, "known: 0, linear attention, and 1, softmax", config.place("attn_type_list"))
    return [KIND_OF[number] for number in stated]


def _minimax_01_weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    return minimax_weights(config, _minimax_01_kinds(config))


FAMILIES = {
    "minimax": Family(
        "MiniMax-01, lightning attention and some softmax attention: MiniMaxConfig and MiniMaxForCausalLM.",
        _minimax,
        _minimax_weights,
        aliases={"num_experts": "num_local_experts"},
    ),
    **dict.fromkeys(
        ("minimax_text_01", "minimax_m1"),
        Family(
            "MiniMax-01 and M1 in their own files: MiniMaxText01Config and MiniMaxM1Config.",
            _minimax_01,
            _minimax_01_weights,
            aliases={"num_experts": "num_local_experts", **MINIMAX_01_FACTORS},
            defaults={"rope_theta": 1e6},
            defaults_of="minimax",
        ),
    ),
}
