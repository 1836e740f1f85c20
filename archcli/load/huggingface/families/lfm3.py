"""Liquid's LFM3: Lfm3Config and Lfm3ForCausalLM."""

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, SLIDING, attention, check_window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.recurrent import CONVOLUTION, hybrid_layers, kinds_of_layers
from archcli.load.huggingface.parts.rope import Parameters, parameters, position
from archcli.load.huggingface.weights.hybrid import by_kinds
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.lfm_like import EVERYWHERE, LAYER, short_convolution

MODEL_TYPES = ("lfm3",)
ROPE: dict[str, dict[str, Any]] = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000000.0},
}
PERIOD, GLOBAL = 4, 2
"""By default of four layers the third is global, and the first of all but the first four has a window."""


def mapping(config: Config) -> Mapped:
    """Short convolutions, attention with a window and without, gated by head, between norms on both sides."""
    config = config.of_class(rms_norm_eps="norm_eps")
    check_window(config)
    config.ignore("rope_parameters")  # read where a layer has attention
    mixers = {
        CONVOLUTION: lambda: {"mixer": short_convolution(config)},
        SLIDING: lambda: {"attention": _attention(config, SLIDING, config.size("sliding_window"))},
        FULL: lambda: {"attention": _attention(config, FULL, None)},
    }
    kind = "sandwich" if config.flag("use_sandwich_norm") else "pre_norm"
    ffn = {"kind": "glu", "d_ff": config.size("intermediate_size")}
    layers = hybrid_layers(_kinds(config), mixers, ffn=ffn, kind=kind)
    return decoder(config, {"kind": "rmsnorm", "eps": config.number("norm_eps")}, layers)


def _kinds(config: Config) -> list[str]:
    """The kind of each layer."""
    count = config.layers()
    kinds = {0: SLIDING, GLOBAL: FULL}
    default = [kinds.get(index % PERIOD, CONVOLUTION) if index else CONVOLUTION for index in range(count)]
    return kinds_of_layers(config, default, (FULL, SLIDING, CONVOLUTION))


def _attention(config: Config, kind: str, window: ConfigValue[int] | None) -> Mapped:
    width = config.size("head_dim")
    return attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=_position(config, kind, width),
        qk_norm=PER_HEAD,
        window=window,
        output_gate={"per": "head"} if config.flag("use_attention_gate") else None,
    )


def _position(config: Config, kind: str, width: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE of the layers of a kind, by what rope_parameters nests under it."""
    known: Parameters = {key: ConfigValue(value, config.places.start) for key, value in ROPE[kind].items()}
    if config.get("rope_parameters", default=None) is not None:
        known = parameters(config, "rope_parameters", kind)
    if "rope_theta" not in known:
        what = f"rope_parameters need a mapping {kind!r} with a rope_theta"
        raise config.error(what, at=config.place("rope_parameters"))
    return position(config, width, known)


NORMS = {"operator_norm": "norm", "post_operator_norm": "post_norm"}


def weights(config: Config) -> Weights:
    """The names of layers of each kind, the norms of which are called by the key of their mixer."""
    kinds = _kinds(config.of_class())
    names = {
        kind: {f"{LAYER}.{theirs}.weight": f"layers.*.{step}_{ours}.weight" for theirs, ours in NORMS.items()}
        for kind, step in ((CONVOLUTION, "mixer"), (FULL, "attention"), (SLIDING, "attention"))
    }
    attends = f"{LAYER}.self_attn"
    return {
        **EVERYWHERE,
        **{f"{attends}.{name}_norm.weight": f"layers.*.attention.{name}_norm.weight" for name in "qk"},
        f"{attends}.o_proj.*": "layers.*.attention.o_proj.*",
        **{
            f"{attends}.{name}.weight": "layers.*.attention.gate_proj.weight"
            for name in ("g_proj", "gate_proj")
        },
        f"{LAYER}.post_ffn_norm.weight": "layers.*.ffn_post_norm.weight",
        **by_kinds(kinds, names),
    }
