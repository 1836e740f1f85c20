"""MiniMax-01 and M1 in their own files: MiniMaxText01Config and MiniMaxM1Config."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import FULL, head_dim
from archcli.load.huggingface.parts.recurrent import LINEAR
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.minimax_like import minimax_like, minimax_weights

MODEL_TYPES = ("minimax_text_01", "minimax_m1")
OWN = {"rope_theta": 1e6}
FACTORS = {
    **{
        f"{place}_attn_{factor}_factor": f"layernorm_{place}_attention_{factor}"
        for place in ("full", "linear")
        for factor in ("alpha", "beta")
    },
    **{f"mlp_{factor}_factor": f"layernorm_mlp_{factor}" for factor in ("alpha", "beta")},
}
KIND_OF = {0: LINEAR, 1: FULL}
"""What the numbers of attn_type_list mean."""


def mapping(config: Config) -> Mapped:
    """Layers by attn_type_list; heads of softmax attention turn rotary_dim of their width."""
    config = config.of_class(OWN, like="minimax", num_experts="num_local_experts", **FACTORS)
    config.only("postnorm", True, default=False)
    rotated = config.optional_size("rotary_dim")
    whole = rotated is None or rotated.value == head_dim(config).value
    turned = {
        "kind": "rope",
        "theta": config.number("rope_theta"),
        "rotary_dim": None if whole else rotated,
    }
    return minimax_like(config, _kinds(config), without_none(turned))


def _kinds(config: Config) -> list[str]:
    stated = config.per_layer("attn_type_list", config.layers())
    if stated is None:
        raise config.error("key 'attn_type_list' is missing", "it has 0 for linear attention, 1 for softmax")
    unknown = [number for number in stated if number not in (0, 1)]
    if unknown:
        what = f"attn_type_list {short_repr(unknown[0])} is not supported"
        raise config.error(what, "known: 0, linear attention, and 1, softmax", config.place("attn_type_list"))
    return [KIND_OF[number] for number in stated]


def weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    config = config.of_class(OWN, like="minimax")
    return minimax_weights(config, _kinds(config))
