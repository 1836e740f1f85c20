"""Decoders of Kimi delta attention, and latent attention in some layers: Kimi Linear and Ling 3."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.load.huggingface.weights.hybrid import kda_names
from archcli.load.huggingface.whole.delta_hybrid import ELSEWHERE, LAYER, by_kind

KIMI_LINEAR_ALIASES = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_experts": "num_local_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
}
KIMI_LINEAR_SYNONYMS = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}
"""Keys of `linear_attn_config`, and the class's keys that they overrule."""

KIMI_LINEAR_NUMBERS = {"full_attn_layers": hf.FULL, "kda_layers": hf.LINEAR}
"""Keys of `linear_attn_config` that name layers, numbered from 1."""

# KimiLinearConfig's, where a file names no layers: 4, 8, 12 …, counted from 0, have full attention
KIMI_LINEAR_PERIOD = 4


def _kimi_linear(config: Config) -> Mapped:
    """Delta attention, and in some layers latent attention without positions; dense layers, then experts."""
    config = _with_linear_keys(config)
    config.only("mla_use_nope", True, default=True)
    config.only("moe_layer_freq", 1, default=1)
    config.only("moe_router_activation_func", "sigmoid", default="sigmoid")
    config.ignore("use_grouped_topk", "rope_theta", "rope_scaling", "rope_parameters")
    hf.without_prediction(config)
    # a rope_scaling that is not supported does no harm where no layer has RoPE
    data = {key: value for key, value in config.data.items() if not key.startswith("rope_")}
    latent = {**hf.latent_attention(replace(config, data=data), "half"), "position": {"kind": "none"}}
    layers: dict[str, Mapped] = {
        hf.LINEAR: {"kind": "pre_norm", "mixer": _kimi_linear_delta_attention(config)},
        hf.FULL: {"kind": "pre_norm", "attention": latent},
    }
    routed = hf.by_types(config, lambda: hf.after_first(config))
    networks = hf.some_routed(config, routed, lambda: hf.deepseek_experts(config))
    mixed = networks([layers[kind] for kind in _kimi_linear_kinds(config)])
    return hf.decoder(config, hf.rmsnorm(config), mixed, embedding={"tied": False})  # the class ties nothing


def _with_linear_keys(config: Config) -> Config:
    """The file with the sizes in `linear_attn_config` at the class's keys."""
    inner = config.inner("linear_attn_config", {}).data
    sizes = {KIMI_LINEAR_SYNONYMS[key]: inner[key] for key in inner if key in KIMI_LINEAR_SYNONYMS}
    return replace(config, data={**config.data, **sizes})


def _kimi_linear_delta_attention(config: Config) -> Mapped:
    return {
        "kind": "kda",
        "n_heads": config.size("linear_num_heads"),
        "head_dim": config.size("linear_head_dim"),
        "conv_kernel": config.size("linear_conv_kernel_dim"),
        "activation": hf.activation(config, "hidden_act"),
        "norm": {
            "kind": "rmsnorm",
            "gate": "after",
            "eps": config.number("rms_norm_eps"),
            "activation": "sigmoid",
        },
    }


def _kimi_linear_kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, linear_attn_config's numbers, else every fourth attends."""
    count, inner = config.layers(), config.inner("linear_attn_config", {})
    numbered = {key: inner.get(key, default=None) for key in KIMI_LINEAR_NUMBERS}
    default = [hf.FULL if index and index % KIMI_LINEAR_PERIOD == 0 else hf.LINEAR for index in range(count)]
    if config.get("layer_types", default=None) is not None or None in numbered.values():
        return hf.kinds_of_layers(config, default, (hf.LINEAR, hf.FULL))
    by_number = {
        number if type(number) is int else hf.short_repr(number): KIMI_LINEAR_NUMBERS[
            key
        ]  # a list has no hash
        for key, numbers in numbered.items()
        for number in (numbers if isinstance(numbers, list) else [hf.short_repr(numbers)])
    }
    if by_number.keys() != {*range(1, count + 1)}:
        what = f"full_attn_layers and kda_layers must name each of the {count} layers once, from 1 on"
        raise config.error(what, at=config.place("linear_attn_config"))
    return [by_number[number] for number in range(1, count + 1)]


WITHIN = f"{LAYER}.self_attn"
KIMI_LINEAR_LINEAR_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    **kda_names(WITHIN, "q", "k", "v", "b", "o", "g_a", "g_b", decay=("f_a_proj", "f_b_proj")),
}
KIMI_LINEAR_FULL_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.attention_norm.weight",
    **hf.MLA,
    f"{WITHIN}.q_proj.weight": "layers.*.attention.q_proj.weight",
    f"{WITHIN}.o_proj.*": "layers.*.attention.o_proj.*",
}
KIMI_LINEAR_BESIDE = "[model.]layers.*.block_sparse_moe"
KIMI_LINEAR_PUBLISHED: Weights = {
    **hf.MIXTRAL_EXPERTS,
    f"{KIMI_LINEAR_BESIDE}.gate.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
    **{
        f"{KIMI_LINEAR_BESIDE}.{theirs}{name}_proj.weight": f"layers.*.ffn.{ours}{name}_proj.weight"
        for theirs, ours in (("", ""), ("shared_experts.", "shared."))
        for name in ("gate", "up", "down")
    },
}
"""Networks in published files; transformers stores the dense one under this name, too."""


def _kimi_linear_weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer."""
    layers = by_kind(
        _kimi_linear_kinds(_with_linear_keys(config)), KIMI_LINEAR_LINEAR_LAYERS, KIMI_LINEAR_FULL_LAYERS
    )
    return {**ELSEWHERE, **KIMI_LINEAR_PUBLISHED, **hf.EXPERTS, **hf.SHARED, **hf.CORRECTED, **layers}


BAILING_ALIASES = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_experts": "num_local_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
    "num_mtp_layers": "num_nextn_predict_layers",
}


def _bailing(config: Config) -> Mapped:
    """Groups of KDA layers that end in one of latent attention; dense layers, then experts."""
    config.only("kda_safe_gate", True)
    config.ignore("mtp_loss_scaling_factor", "q_lora_rank")
    hf.without_prediction(config)
    layers: dict[str, Mapped] = {
        hf.LINEAR: {"kind": "pre_norm", "mixer": _bailing_delta_attention(config)},
        hf.FULL: {"kind": "pre_norm", "attention": _latent(config)},
    }
    routed = hf.by_types(config, lambda: hf.after_first(config))
    networks = hf.some_routed(config, routed, lambda: hf.deepseek_experts(config))
    mixed = networks([layers[kind] for kind in _bailing_kinds(config)])
    return hf.decoder(config, hf.rmsnorm(config), mixed, embedding={"tied": False})  # the class ties nothing


def _bailing_kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, else the last of each group attends."""
    size = config.size("layer_group_size").value
    default = [hf.LINEAR if (index + 1) % size else hf.FULL for index in range(config.layers())]
    return hf.kinds_of_layers(config, default, (hf.LINEAR, hf.FULL))


def _latent(config: Config) -> Mapped:
    """Latent attention with queries of full rank and a gate per head."""
    width = config.size("qk_nope_head_dim").value + config.size("qk_rope_head_dim").value
    config.only("qk_head_dim", width, default=width)
    latent = hf.latent_attention(config, "interleaved")
    return {**latent, "output_gate": {"per": "head"}}


def _bailing_delta_attention(config: Config) -> Mapped:
    """KDA; the class writes the three sizes as linear_…, and head_dim as that of rotary dims."""
    bound = config.number("kda_lower_bound")
    if bound.value >= 0:
        raise config.error(f"kda_lower_bound must be below 0, not {bound}", at=bound.place)
    return {
        "kind": "kda",
        "n_heads": config.size("linear_num_heads", default=config.size("num_attention_heads")),
        "head_dim": config.size("linear_head_dim", default=config.size("head_dim")),
        "conv_kernel": config.size("linear_conv_kernel_dim", default=config.size("short_conv_kernel_size")),
        "activation": hf.activation(config, "hidden_act"),
        "full_gates": True,
        "decay_bound": bound,
        "norm": {
            "kind": "rmsnorm",
            "gate": "after",
            "eps": config.number("rms_norm_eps"),
            "activation": "sigmoid",
        },
    }


BAILING_LINEAR_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    **kda_names(WITHIN, *"qkvbog", decay=("f_proj",)),
}
BAILING_FULL_LAYERS: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.attention_norm.weight",
    **hf.MLA,
    f"{WITHIN}.q_proj.weight": "layers.*.attention.q_proj.weight",
    f"{WITHIN}.g_proj.weight": "layers.*.attention.gate_proj.weight",
    f"{WITHIN}.o_proj.*": "layers.*.attention.o_proj.*",
}


BAILING_PUBLISHED: Weights = {
    "[model.]word_embeddings.weight": "embedding.tokens.weight",
    f"{LAYER}.mlp.gate.expert_bias": "layers.*.ffn.route.correction_bias",
}
"""Names in published files outside of mixers; within, attention stands for self_attn, dense for o_proj."""


def _with_published(names: Weights) -> Weights:
    """The names of transformers, and those of published files."""
    theirs = {name.replace(".self_attn.", ".attention."): rule for name, rule in names.items()}
    dense = {name.replace(".o_proj.", ".dense."): rule for name, rule in theirs.items()}
    return {**names, **theirs, **dense, **BAILING_PUBLISHED}


def _bailing_weights(config: Config) -> Weights:
    """Names of mixers by the kind of layer."""
    mixers = by_kind(_bailing_kinds(config), BAILING_LINEAR_LAYERS, BAILING_FULL_LAYERS)
    return {**ELSEWHERE, **hf.EXPERTS, **hf.SHARED, **hf.CORRECTED, **_with_published(mixers)}


FAMILIES = {
    "kimi_linear": Family(
        "Kimi Linear: KimiLinearConfig and KimiLinearForCausalLM.",
        _kimi_linear,
        _kimi_linear_weights,
        aliases=KIMI_LINEAR_ALIASES,
        defaults={"first_k_dense_replace": 1},
    ),
    "bailing_hybrid": Family(
        "Ling 3, KDA and gated latent attention: BailingHybridConfig and BailingHybridForCausalLM.",
        _bailing,
        _bailing_weights,
        aliases=BAILING_ALIASES,
        defaults={"head_dim": 128},
    ),
}
