"""Olmo Hybrid: OlmoHybridConfig and OlmoHybridForCausalLM."""

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import QK_NORM
from archcli.load.huggingface.whole.delta_hybrid import DELTA, ELSEWHERE, LAYER, by_kind, delta_net

MODEL_TYPES = ("olmo_hybrid",)
STARTS = "linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor"
"""How weights are drawn."""

PERIOD, NORM_EPS = 4, 1e-5


def mapping(config: Config) -> Mapped:
    """Gated delta nets with norms before, attention with norms after in every fourth layer."""
    config = config.of_class()
    config.ignore(*STARTS.split())
    width, ffn = head_dim(config), gated(config)
    attend = attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        position=_position(config, width),
        qk_norm={"per": "full"},
    )
    delta = delta_net(config.with_defaults(**_widths(config)), NORM_EPS)
    delta["neg_eigval"] = config.flag("linear_allow_neg_eigval")
    layers = {
        LINEAR: {"kind": "pre_norm", "mixer": delta, "ffn": ffn},
        FULL: {"kind": "norm_after", "attention": attend, "ffn": ffn},
    }
    return decoder(config, rmsnorm(config), [layers[kind] for kind in _kinds(config)])


def _widths(config: Config) -> dict[str, Any]:
    """Defaults of the delta net: heads as of attention, keys of three quarters of the width, values twice."""
    heads = config.size("num_attention_heads")
    keys = config.size("linear_num_key_heads", default=heads)
    usual = int(0.75 * config.size("hidden_size").value / keys.value)
    width = config.size("linear_key_head_dim", default=ConfigValue(usual, keys.place))
    return {
        "linear_num_key_heads": heads.value,
        "linear_num_value_heads": heads.value,
        "linear_key_head_dim": usual,
        "linear_value_head_dim": 2 * width.value,
    }


def _position(config: Config, width: ConfigValue[int]) -> ConfigValue[Mapped] | Mapped:
    """RoPE, but for a file whose base is null."""
    stated = config.get("rope_scaling", default=None) or config.get("rope_parameters", default=None)
    within = stated if isinstance(stated, dict) and "rope_theta" in stated else config.data
    return {"kind": "none"} if within.get("rope_theta", 0) is None else rope(config, width)


def _kinds(config: Config) -> list[str]:
    """The mixer of each layer; without a list every fourth attends, the last where there are fewer."""
    count = config.layers()
    default = [FULL if index % PERIOD == PERIOD - 1 else LINEAR for index in range(count)]
    return kinds_of_layers(config, default if FULL in default else [*default[:-1], FULL], (LINEAR, FULL))


LINEAR_LAYERS: Weights = {
    **DELTA,
    f"{LAYER}.linear_attn.o_norm.weight": "layers.*.mixer.norm.weight",
    **{
        f"{LAYER}.linear_attn.{name}_proj.weight": f"layers.*.mixer.{name}_proj.weight"
        for name in ("q", "k", "v", "a", "b", "g", "o")
    },
    **{f"{LAYER}.linear_attn.{name}_conv1d.weight": f"layers.*.mixer.{name}_conv.weight" for name in "qkv"},
    **{
        f"{LAYER}.{name}.weight": "layers.*.mixer_norm.weight"
        for name in ("input_layernorm", "attention_layer_norm")
    },
    **{
        f"{LAYER}.{name}.weight": "layers.*.ffn_norm.weight"
        for name in ("post_attention_layernorm", "feedforward_layer_norm")
    },
}
"""Of published files and of the class, which has one convolution and Llama's words for norms."""

FULL_LAYERS: Weights = {
    **{f"{LAYER}.self_attn.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkvo"},
    **QK_NORM,
    **{
        f"{LAYER}.{name}.weight": "layers.*.attention_norm.weight"
        for name in ("post_attention_layernorm", "feedforward_layer_norm")
    },
    f"{LAYER}.post_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
}


def weights(config: Config) -> Weights:
    """Norms have their names by the kind of layer."""
    elsewhere = {name: rule for name, rule in ELSEWHERE.items() if ".post_attention_" not in name}
    return {**elsewhere, **by_kind(_kinds(config.of_class()), LINEAR_LAYERS, FULL_LAYERS)}
