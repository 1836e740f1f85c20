"""Kimi Linear: KimiLinearConfig and KimiLinearForCausalLM."""

from dataclasses import replace

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL, latent_attention
from archcli.load.huggingface.parts.decoder import decoder, without_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.weights.hybrid import kda_names
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, MIXTRAL_EXPERTS, MLA, SHARED
from archcli.load.huggingface.whole.delta_hybrid import ELSEWHERE, LAYER, by_kind

MODEL_TYPES = ("kimi_linear",)
OWN = {"first_k_dense_replace": 1}
ALIASES = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_experts": "num_local_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
}
WORDS = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}
"""Keys of `linear_attn_config`: the class's, which they overrule."""

NUMBERS = {"full_attn_layers": FULL, "kda_layers": LINEAR}
"""Keys of `linear_attn_config` that name layers, numbered from 1."""

PERIOD = 4


def mapping(config: Config) -> Mapped:
    """Delta attention, and in some layers latent attention without positions; dense layers, then experts."""
    config = _of_class(config)
    config.only("mla_use_nope", True, default=True)
    config.only("moe_layer_freq", 1, default=1)
    config.only("moe_router_activation_func", "sigmoid", default="sigmoid")
    config.ignore("use_grouped_topk", "rope_theta", "rope_scaling", "rope_parameters")
    without_prediction(config)
    placeless = {key: value for key, value in config.data.items() if not key.startswith("rope_")}
    latent = {**latent_attention(replace(config, data=placeless), "half"), "position": {"kind": "none"}}
    layers: dict[str, Mapped] = {
        LINEAR: {"kind": "pre_norm", "mixer": _delta_attention(config)},
        FULL: {"kind": "pre_norm", "attention": latent},
    }
    routed = by_types(config, lambda: after_first(config))
    networks = some_routed(config, routed, lambda: deepseek_experts(config))
    mixed = networks([layers[kind] for kind in _kinds(config)])
    return decoder(config, rmsnorm(config), mixed, embedding={"tied": False})  # the class ties nothing


def _of_class(config: Config) -> Config:
    """The file with the words of the class for what `linear_attn_config` states."""
    stated = config.inner("linear_attn_config", {}).data
    words = {WORDS[key]: value for key, value in stated.items() if key in WORDS}
    return replace(config, data={**config.data, **words}).of_class(OWN, **ALIASES)


def _delta_attention(config: Config) -> Mapped:
    return {
        "kind": "kda",
        "n_heads": config.size("linear_num_heads"),
        "head_dim": config.size("linear_head_dim"),
        "conv_kernel": config.size("linear_conv_kernel_dim"),
        "activation": activation(config, "hidden_act"),
        "norm": {
            "kind": "rmsnorm",
            "gate": "after",
            "eps": config.number("rms_norm_eps"),
            "activation": "sigmoid",
        },
    }


def _kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, linear_attn_config's numbers, else every fourth attends."""
    count, inner = config.layers(), config.inner("linear_attn_config", {})
    numbered = {key: inner.get(key, default=None) for key in NUMBERS}
    default = [FULL if index and index % PERIOD == 0 else LINEAR for index in range(count)]
    if config.get("layer_types", default=None) is not None or None in numbered.values():
        return kinds_of_layers(config, default, (LINEAR, FULL))
    by_number = {
        number if type(number) is int else short_repr(number): NUMBERS[key]  # a list has no hash
        for key, numbers in numbered.items()
        for number in (numbers if isinstance(numbers, list) else [short_repr(numbers)])
    }
    if by_number.keys() != {*range(1, count + 1)}:
        what = f"full_attn_layers and kda_layers must name each of the {count} layers once, from 1 on"
        raise config.error(what, at=config.place("linear_attn_config"))
    return [by_number[number] for number in range(1, count + 1)]


WITHIN = f"{LAYER}.self_attn"
LINEAR_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    **kda_names(WITHIN, "q", "k", "v", "b", "o", "g_a", "g_b", decay=("f_a_proj", "f_b_proj")),
}
FULL_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.attention_norm.weight",
    **MLA,
    f"{WITHIN}.q_proj.weight": "layers.*.attention.q_proj.weight",
    f"{WITHIN}.o_proj.*": "layers.*.attention.o_proj.*",
}
BESIDE = "[model.]layers.*.block_sparse_moe"
PUBLISHED: Weights = {
    **MIXTRAL_EXPERTS,
    f"{BESIDE}.gate.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
    **{
        f"{BESIDE}.{theirs}{name}_proj.weight": f"layers.*.ffn.{ours}{name}_proj.weight"
        for theirs, ours in (("", ""), ("shared_experts.", "shared."))
        for name in ("gate", "up", "down")
    },
}
"""Networks in published files; transformers stores the dense one under this name, too."""


def weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer."""
    layers = by_kind(_kinds(_of_class(config)), LINEAR_LAYERS, FULL_LAYERS)
    return {**ELSEWHERE, **PUBLISHED, **EXPERTS, **SHARED, **CORRECTED, **layers}
