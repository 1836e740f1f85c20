"""Nemotron-H."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Rule, Weights
from archcli.load.huggingface.weights.hybrid import by_kinds

# in the order of Mamba2Keys' fields
KEYS = hf.Mamba2Keys(
    "mamba_num_heads",
    "mamba_head_dim",
    "ssm_state_size",
    "n_groups",
    "conv_kernel",
    "chunk_size",
    "use_bias",
    "use_conv_bias",
    "mamba_hidden_act",
    "layer_norm_epsilon",
)
RENAMED = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_chunk_size": "chunk_size",
    "mamba_dt_min": "time_step_min",
    "num_local_experts": "n_routed_experts",
}
"""Keys of older files, and the class's keys that they overrule."""

UNREAD = """
    num_hidden_layers attention_bias attention_dropout sliding_window expand mamba_expand mamba_proj_bias
    mamba_ssm_cache_dtype time_step_max time_step_limit time_step_floor mamba_dt_max mamba_dt_limit
    mamba_dt_init_floor time_step_rank residual_in_fp32 hidden_dropout rescale_prenorm_residual
    num_logits_to_keep
    use_mamba_kernels n_shared_experts moe_shared_expert_overlap mtp_layers_block_type rope_theta
    mtp_hybrid_override_pattern partial_rotary_factor norm_eps rms_norm_eps rope_parameters rope_scaling
"""
"""Keys that the class does not read, or only to initialize weights."""

MLP, MOE = "mlp", "moe"
PATTERN = {"M": hf.LINEAR, "E": MOE, "*": hf.FULL, "-": MLP}
"""The letters of hybrid_override_pattern."""


def _nemotron_h(config: Config) -> Mapped:
    """Layers of one sublayer each: Mamba-2, attention without positions, a network or experts."""
    config = _with_class_keys(config)
    mixers = {
        hf.LINEAR: lambda: {"mixer": _mixer(config)},
        hf.FULL: lambda: {"attention": hf.attention(config, _head_dim(config), position={"kind": "none"})},
        MLP: lambda: {"ffn": _network(config, config.size("intermediate_size"))},
        MOE: lambda: {"ffn": _experts(config)},
    }
    hf.without_prediction(config)
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    config.ignore("tie_word_embeddings")  # the class names no tied weights
    return hf.decoder(config, norm, hf.hybrid_layers(_kinds(config), mixers), embedding={"tied": False})


def _with_class_keys(config: Config) -> Config:
    """The file with the class's keys, and with as many layers as it names kinds."""
    config.ignore(*UNREAD.split(), *RENAMED, "layer_types", "layers_block_type", "hybrid_override_pattern")
    data = {RENAMED.get(key, key): value for key, value in config.data.items() if key not in RENAMED}
    data |= {RENAMED[key]: value for key, value in config.data.items() if key in RENAMED}
    renamed = replace(config, data=data)
    return replace(renamed, data={**data, "num_hidden_layers": len(_kinds(renamed))})


def _kinds(config: Config) -> list[str]:
    """The kind of each layer: by a list, else by a pattern of letters, else the class's default."""
    key = next(
        (key for key in ("layers_block_type", "layer_types") if config.data.get(key) is not None), None
    )
    pattern = config.get("hybrid_override_pattern", default=None)
    if key is not None:
        kinds = config.get(key)
    elif pattern is not None:
        key = "hybrid_override_pattern"
        kinds = [PATTERN.get(letter, letter) for letter in pattern] if isinstance(pattern, str) else pattern
    else:
        kinds = [hf.LINEAR, MOE, hf.FULL, MLP]
    if not isinstance(kinds, list) or not kinds:
        raise config.error(
            f"{key} must name the layers, not {hf.short_repr(kinds)}", at=config.place(str(key))
        )
    kinds = [hf.OLDER_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    unknown = [kind for kind in kinds if kind not in PATTERN.values()]
    if unknown:
        known = f"known: {', '.join(PATTERN.values())}, and the letters {' '.join(PATTERN)} of a pattern"
        raise config.error(
            f"{key} {hf.short_repr(unknown[0])} is not supported", known, config.place(str(key))
        )
    return kinds


def _head_dim(config: Config) -> ConfigValue[int]:
    """The width of attention's heads, which files of the first models call attention_head_dim."""
    return config.size("head_dim", "attention_head_dim")


def _mixer(config: Config) -> Mapped:
    least = config.number("time_step_min")
    limit = [least, None] if least.value > 0 else None
    return hf.mamba2(config, KEYS, config.size("mamba_head_dim"), step_limit=limit)


def _network(config: Config, width: ConfigValue[int]) -> Mapped:
    return hf.mlp(config, width, "mlp_hidden_act", bias=config.flag("mlp_bias"))


def _experts(config: Config) -> Mapped:
    """Experts chosen as in DeepSeek-V3, on tokens of a smaller width if moe_latent_size says so."""
    shared_width = config.count("moe_shared_expert_intermediate_size")
    latent = config.optional_size("moe_latent_size")
    return hf.experts(
        config,
        expert=hf.mlp(config, config.size("moe_intermediate_size"), "mlp_hidden_act", bias=False),
        router=hf.corrected_router(config),
        shared=_network(config, shared_width or config.size("intermediate_size")),
        latent=latent,
        latent_bias=(config.flag("mlp_bias") or None) if latent else None,
    )


MLP_NAMES = ("up_proj", "down_proj")


def _layer_names(layer: str) -> dict[str, Weights]:
    """The names of each kind of layer, under this prefix."""
    theirs, ours = f"{layer}.mixer", "layers.*.ffn"
    return {
        hf.LINEAR: {f"{layer}.norm.weight": "layers.*.mixer_norm.weight", **hf.mamba2_names(theirs)},
        hf.FULL: {
            f"{layer}.norm.weight": "layers.*.attention_norm.weight",
            **{f"{theirs}.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkvo"},
        },
        MLP: {
            f"{layer}.norm.weight": "layers.*.ffn_norm.weight",
            **{f"{theirs}.{name}.*": f"{ours}.{name}.*" for name in MLP_NAMES},
        },
        MOE: {
            f"{layer}.norm.weight": "layers.*.ffn_norm.weight",
            f"{theirs}.gate.weight": f"{ours}.router.weight",
            f"{theirs}.gate.e_score_correction_bias": f"{ours}.route.correction_bias",
            f"{theirs}.fc1_latent_proj.*": f"{ours}.latent_down.*",
            f"{theirs}.fc2_latent_proj.*": f"{ours}.latent_up.*",
            **{f"{theirs}.shared_experts.{name}.*": f"{ours}.shared.{name}.*" for name in MLP_NAMES},
            **{f"{theirs}.experts.{name}": f"{ours}.experts.{name}.weight" for name in MLP_NAMES},
            **{f"{theirs}.experts.#.{name}.weight": f"{ours}.experts.{name}.weight" for name in MLP_NAMES},
        },
    }


def _nemotron_h_weights(config: Config) -> Weights:
    """The names of layers of each kind, under the prefix of the class and that of published files."""
    kinds = _kinds(_with_class_keys(config))
    names: dict[str, Rule] = {"lm_head.weight": "lm_head.weight"}
    for prefix in ("[model.]", "backbone."):
        names[f"{prefix}embeddings.weight"] = "embedding.tokens.weight"
        names[f"{prefix}norm_f.weight"] = "final_norm.weight"
        names |= by_kinds(kinds, _layer_names(f"{prefix}layers.*"))
    return names


FAMILIES = {
    "nemotron_h": Family(
        "NVIDIA's Nemotron-H and Nemotron 3: NemotronHConfig and NemotronHForCausalLM.",
        _nemotron_h,
        _nemotron_h_weights,
        aliases={"num_experts": "n_routed_experts"},
    ),
}
